package status

import (
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// randomInput replaces the observation by random sandboxes and containers, possible or not.
func randomInput(r *rand.Rand, s *story) {
	s.Observed, s.Waiting = pod.Observed{}, map[string]WaitingReason{}
	for i := range r.IntN(3) {
		s.Observed.Sandboxes = append(s.Observed.Sandboxes, pod.Sandbox{
			ID: string(rune('A' + i)), State: pod.SandboxState(r.IntN(2)), CreatedAt: at(float64(r.IntN(50))),
		})
	}
	for i := range r.IntN(9) {
		name := []string{"setup", "net", "load", "app", "log", "shell", "stranger"}[r.IntN(7)]
		id := string(rune('a' + i))
		s.Observed.Containers = append(s.Observed.Containers, pod.Container{
			ID: id, Name: name, SandboxID: []string{"A", "B"}[r.IntN(2)], State: pod.ContainerState(r.IntN(4)),
			ExitCode: int32(r.IntN(2)), StartedAt: at(float64(r.IntN(50))), FinishedAt: at(float64(r.IntN(50))),
		})
		if r.IntN(3) == 0 {
			s.Waiting[name] = WaitingReason{Reason: pod.ReasonCrashLoopBackOff}
		}
		if r.IntN(3) == 0 {
			s.started(id, r.IntN(2) == 0)
		}
		if r.IntN(3) == 0 {
			s.ready(id, r.IntN(2) == 0)
		}
	}
}

func TestWhateverHappensAStatusMakesSense(t *testing.T) {
	order := map[v1.PodPhase]int{v1.PodPending: 0, v1.PodRunning: 1, v1.PodSucceeded: 2, v1.PodFailed: 2}
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := given(v1.RestartPolicyAlways, "app", "log").after("setup", "+net", "load").debug("shell")
		s.Pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "lb"}}
		// A status that another program wrote need not make sense.
		s.Pod.Status = v1.PodStatus{
			Conditions:            []v1.PodCondition{{Type: "lb", Status: v1.ConditionTrue}},
			InitContainerStatuses: []v1.ContainerStatus{{Name: "net", Ready: true, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}},
			ContainerStatuses:     []v1.ContainerStatus{{Name: "app", Ready: true, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}},
		}
		s.Pod.Annotations[pod.AnnotationSource] = []string{pod.SourceAPI, pod.SourceFile}[r.IntN(2)]

		for step := range 8 {
			randomInput(r, s)
			s.now(float64(60 + step))
			s.Finished, s.Stopped, s.RestartingAll = r.IntN(12) == 0, r.IntN(12) == 0, r.IntN(4) == 0
			s.Termination, s.Stopping = nil, nil
			if r.IntN(12) == 0 {
				s.ended("Evicted", "")
			}
			if r.IntN(8) == 0 {
				s.stopping("stopping containers", 70)
			}
			before, got := s.Previous, s.derive()
			if before != nil && (order[got.Phase] < order[before.Phase] || order[before.Phase] == 2 && got.Phase != before.Phase) {
				t.Fatalf("seed %d: from %s to %s", seed, before.Phase, got.Phase)
			}
			if (before == nil || !isOver(before.Phase)) && isOver(got.Phase) && anyRunning(&got) {
				t.Fatalf("seed %d: it is %s and runs: %s", seed, got.Phase, describe(got))
			}
			checkConsistency(t, seed, got)
			s.before(got)
		}
	}
}

func checkConsistency(t *testing.T, seed uint64, s v1.PodStatus) {
	t.Helper()
	if len(s.InitContainerStatuses) != 3 || len(s.ContainerStatuses) != 2 || len(s.EphemeralContainerStatuses) != 1 {
		t.Fatalf("seed %d: a container is missing: %s", seed, describe(s))
	}
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for _, c := range list {
			states := 0
			for _, is := range []bool{c.State.Waiting != nil, c.State.Running != nil, c.State.Terminated != nil} {
				if is {
					states++
				}
			}
			if states != 1 {
				t.Fatalf("seed %d: %s is in %d states", seed, c.Name, states)
			}
		}
	}
	types := map[v1.PodConditionType]v1.ConditionStatus{}
	for _, c := range s.Conditions {
		if _, twice := types[c.Type]; twice {
			t.Fatalf("seed %d: condition %s twice", seed, c.Type)
		}
		types[c.Type] = c.Status
	}
	if types[v1.PodReady] == v1.ConditionTrue && types[v1.ContainersReady] != v1.ConditionTrue {
		t.Fatalf("seed %d: ready without its containers", seed)
	}
	if over := s.Phase == v1.PodSucceeded || s.Phase == v1.PodFailed; over && types[v1.ContainersReady] == v1.ConditionTrue {
		t.Fatalf("seed %d: ready after its end", seed)
	}
}
