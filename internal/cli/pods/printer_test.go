package pods

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/cli/clitest"
	"berth/internal/lib/pod"
)

func ended(code int32, reason string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
}

func TestSummarize(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	yes := true
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	cases := []struct {
		name   string
		change func(*v1.Pod)
		want   string // status ready/total restarts
	}{
		{"all is well", func(*v1.Pod) {}, "Running 2/2 0"},
		{"no status yet", func(p *v1.Pod) { p.Status = v1.PodStatus{} }, "Pending 0/2 0"},
		{"turned away", func(p *v1.Pod) { p.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: "NodePorts"} }, "NodePorts 0/2 0"},
		{"one waits", func(p *v1.Pod) {
			p.Status.ContainerStatuses[1].State = clitest.WaitingState("ErrImagePull")
			p.Status.ContainerStatuses[1].Ready = false
		}, "ErrImagePull 1/2 0"},
		{"the first word stays", func(p *v1.Pod) {
			p.Status.ContainerStatuses[0].State = clitest.WaitingState("CrashLoopBackOff")
			p.Status.ContainerStatuses[0].RestartCount = 3
			p.Status.ContainerStatuses[1].State = clitest.WaitingState("ErrImagePull")
			p.Status.ContainerStatuses[1].RestartCount = 4
		}, "CrashLoopBackOff 0/2 7"},
		{"one is not ready", func(p *v1.Pod) { p.Status.ContainerStatuses[0].Ready = false }, "Running 1/2 0"},
		{"one is done", func(p *v1.Pod) { p.Status.ContainerStatuses[1].State = ended(0, "Completed") }, "Running 1/2 0"},
		{"one is done and the pod not ready", func(p *v1.Pod) {
			p.Status.ContainerStatuses[1].State = ended(0, "Completed")
			p.Status.Conditions = nil
		}, "NotReady 1/2 0"},
		{"all are done", func(p *v1.Pod) {
			p.Status.Phase = v1.PodSucceeded
			p.Status.ContainerStatuses[0].State = ended(0, "Completed")
			p.Status.ContainerStatuses[1].State = ended(0, "Completed")
		}, "Completed 0/2 0"},
		{"failed without a reason", func(p *v1.Pod) { p.Status.ContainerStatuses[0].State = ended(7, "") }, "ExitCode:7 1/2 0"},
		{"ended by a signal", func(p *v1.Pod) {
			p.Status.ContainerStatuses[0].State.Running = nil
			p.Status.ContainerStatuses[0].State.Terminated = &v1.ContainerStateTerminated{Signal: 9}
		}, "Signal:9 1/2 0"},
		{"being deleted", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, "Terminating 2/2 0"},
		{"over, and being deleted", func(p *v1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			p.Status.Phase = v1.PodFailed
			p.Status.ContainerStatuses[0].State = ended(1, "Error")
		}, "Error 1/2 0"},
		{"the second init container runs", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "i"}, {Name: "j"}, {Name: "k"}}
			p.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "i", State: ended(0, ""), RestartCount: 2}, {Name: "j", State: running}, {Name: "k", State: clitest.WaitingState("PodInitializing")}}
			p.Status.ContainerStatuses = nil
		}, "Init:1/3 0/2 2"},
		{"an init container fails", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "i"}}
			p.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "i", State: ended(1, "Error")}}
		}, "Init:Error 0/2 0"},
		{"an init container waits", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "i"}}
			p.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "i", State: clitest.WaitingState("CrashLoopBackOff"), RestartCount: 5}}
		}, "Init:CrashLoopBackOff 0/2 5"},
		{"init is over, and its restarts forgotten", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "i"}}
			p.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "i", State: ended(0, "Completed"), RestartCount: 5}}
		}, "Running 2/2 0"},
		{"a sidecar counts", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "s", RestartPolicy: &always}}
			p.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "s", State: running, Started: &yes, Ready: true, RestartCount: 1}}
		}, "Running 3/3 1"},
		{"a sidecar comes up", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "s", RestartPolicy: &always}}
			p.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "s", State: running}}
			p.Status.ContainerStatuses = nil
		}, "Init:0/1 0/3 0"},
		{"a sidecar is restarted in a pod that runs", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "s", RestartPolicy: &always}}
			p.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "s", State: clitest.WaitingState("CrashLoopBackOff"), RestartCount: 1}}
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue})
		}, "Init:CrashLoopBackOff 2/3 1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := clitest.RunningPod("x", "web", "app", "side")
			c.change(p)
			s := summarize(p)
			row := row(p, false, time.Now())
			if got := s.status + " " + row[1] + " " + row[3]; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRow(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := clitest.RunningPod("x", "web", "app")
	p.CreationTimestamp = metav1.NewTime(now.Add(-50 * time.Hour))
	p.Status.ContainerStatuses[0].RestartCount = 2
	p.Status.ContainerStatuses[0].LastTerminationState = v1.ContainerState{
		Terminated: &v1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now.Add(-5 * time.Second))},
	}
	young := clitest.RunningPod("x", "young", "app")
	young.CreationTimestamp = metav1.Time{}
	young.Annotations[pod.AnnotationSeen] = now.Add(-30 * time.Second).Format(time.RFC3339Nano)
	bare := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "bare"}}
	cases := []struct {
		pod  *v1.Pod
		gone bool
		want string
	}{
		{p, false, "web-node-1|1/1|Running|2 (5s ago)|2d2h|10.0.0.7|node-1|<none>"},
		{p, true, "web-node-1|1/1|Deleted|2 (5s ago)|2d2h|10.0.0.7|node-1|<none>"},
		{young, false, "young-node-1|1/1|Running|0|30s|10.0.0.7|node-1|<none>"},
		{bare, false, "bare|0/0|Pending|0|<unknown>|<none>|<none>|<none>"},
	}
	for _, c := range cases {
		if got := strings.Join(row(c.pod, c.gone, now), "|"); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestMessageOfAPod(t *testing.T) {
	waiting := v1.ContainerStatus{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Message: "Back-off\npulling"}}}
	for name, test := range map[string]struct {
		status v1.PodStatus
		want   string
	}{
		"nothing to say":         {v1.PodStatus{}, ""},
		"a container that waits": {v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{}, waiting}}, "Back-off pulling"},
		"the pod goes first":     {v1.PodStatus{Message: "Terminating", ContainerStatuses: []v1.ContainerStatus{waiting}}, "Terminating"},
		"too long":               {v1.PodStatus{Message: strings.Repeat("x", 200)}, strings.Repeat("x", 49) + "..." + strings.Repeat("x", 48)},
		"too long, in the middle": {
			v1.PodStatus{Message: `Pulling image "` + strings.Repeat("x", 100) + `": 4.0Mi of 8.0Mi, 1.0Mi/s, 4s left`},
			`Pulling image "` + strings.Repeat("x", 34) + "..." + strings.Repeat("x", 13) + `": 4.0Mi of 8.0Mi, 1.0Mi/s, 4s left`,
		},
	} {
		if got := message(&v1.Pod{Status: test.status}); got != test.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
