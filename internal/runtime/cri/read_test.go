package cri

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
)

const noon = int64(1_893_499_200_000_000_000) // in nanoseconds

func moment(seconds int64) int64 { return noon + seconds*int64(time.Second) }

// aPod is a runtime with one pod of two lives of one container, a neighbour and
// a sandbox that no node agent made.
func aPod() *server {
	return &server{
		sandboxes: []*runtimeapi.PodSandbox{
			{
				Id: "old", CreatedAt: moment(50), Labels: labels("uid", ""), State: runtimeapi.PodSandboxState_SANDBOX_NOTREADY,
				Metadata: &runtimeapi.PodSandboxMetadata{Attempt: 0},
			},
			{
				// Made later, though its clock says otherwise.
				Id: "new", CreatedAt: moment(1), Labels: labels("uid", ""), State: runtimeapi.PodSandboxState_SANDBOX_READY,
				Metadata:    &runtimeapi.PodSandboxMetadata{Attempt: 1},
				Annotations: map[string]string{pod.AnnotationSpecHash: "hash", pod.AnnotationSeen: "2030-01-01T11:59:00.5Z"},
			},
			{Id: "other", CreatedAt: moment(0), Labels: labels("other", "")},
			{Id: "foreign", CreatedAt: moment(0)},
		},
		containers: []*runtimeapi.Container{
			{
				Id: "first", PodSandboxId: "new", CreatedAt: moment(2), Labels: labels("uid", "app"), State: runtimeapi.ContainerState_CONTAINER_EXITED,
				Image: &runtimeapi.ImageSpec{Image: "sha256:1"}, ImageRef: "sha256:1", Annotations: map[string]string{pod.AnnotationBackoff: "nonsense"},
			},
			{
				Id: "second", PodSandboxId: "new", CreatedAt: moment(2), Metadata: &runtimeapi.ContainerMetadata{Attempt: 3}, Labels: labels("uid", "app"), State: runtimeapi.ContainerState_CONTAINER_CREATED,
				Image: &runtimeapi.ImageSpec{Image: "sha256:1", UserSpecifiedImage: "localhost/app:1"}, ImageRef: "sha256:1",
				Annotations: map[string]string{
					pod.AnnotationSpecHash: "app-hash", pod.AnnotationRestartCount: "1", pod.AnnotationBackoff: "10s", pod.AnnotationGrace: "7",
				},
			},
			{Id: "foreign", CreatedAt: moment(0)},
		},
		statuses: map[string]*runtimeapi.ContainerStatus{
			"first": {
				State: runtimeapi.ContainerState_CONTAINER_EXITED, StartedAt: moment(3), FinishedAt: moment(4), ExitCode: 7,
				Reason: "OOMKilled", Message: "too large", LogPath: "/logs/0.log",
			},
			"second": {
				State: runtimeapi.ContainerState_CONTAINER_RUNNING, StartedAt: moment(6), ImageRef: "localhost/app@sha256:2",
				Mounts: []*runtimeapi.Mount{{ContainerPath: "/data", Readonly: true}, {ContainerPath: "/locked", Readonly: true, RecursiveReadOnly: true}},
			},
		},
		networks: map[string]*runtimeapi.PodSandboxNetworkStatus{
			"new": {Ip: "10.0.0.2", AdditionalIps: []*runtimeapi.PodIP{{Ip: "fd00::2"}}},
		},
	}
}

func TestPodReadsAllThatThereIs(t *testing.T) {
	got, err := clientOf(t, aPod()).Pod(t.Context(), "uid")
	if err != nil {
		t.Fatal(err)
	}
	at := func(seconds int64) time.Time { return time.Unix(0, moment(seconds)) }
	seen := time.Date(2030, 1, 1, 11, 59, 0, 500_000_000, time.UTC)
	want := pod.Observed{
		UID: "uid", Name: "web", Namespace: "shop",
		Sandboxes: []pod.Sandbox{
			{ID: "new", Attempt: 1, State: pod.SandboxReady, CreatedAt: at(1), IPs: []string{"10.0.0.2", "fd00::2"}, Hash: "hash", FirstSeen: seen},
			{ID: "old", State: pod.SandboxNotReady, CreatedAt: at(50)},
		},
		Containers: []pod.Container{
			{
				ID: "second", Name: "app", SandboxID: "new", State: pod.ContainerRunning, Image: "localhost/app:1", ImageRef: "localhost/app@sha256:2",
				CreatedAt: at(2), StartedAt: at(6), Hash: "app-hash", Attempt: 3, RestartCount: 1, Backoff: 10 * time.Second, Grace: 7,
				ReadOnlyBelow: []string{"/locked"},
			},
			{
				ID: "first", Name: "app", SandboxID: "new", State: pod.ContainerExited, Image: "sha256:1", ImageRef: "sha256:1",
				CreatedAt: at(2), StartedAt: at(3), FinishedAt: at(4), ExitCode: 7, Reason: "OOMKilled", Message: "too large",
				LogPath: "/logs/0.log", Grace: pod.DefaultGrace,
			},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestAPodThatTheRuntimeDoesNotKnowIsEmpty(t *testing.T) {
	got, err := clientOf(t, aPod()).Pod(t.Context(), "nobody")
	if err != nil || !reflect.DeepEqual(got, pod.Observed{UID: "nobody"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestWhatVanishesWhileAPodIsReadIsLeftOut(t *testing.T) {
	s := aPod()
	delete(s.statuses, "first")
	delete(s.networks, "new")
	got, err := clientOf(t, s).Pod(t.Context(), "uid")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Containers) != 1 || got.Containers[0].ID != "second" || got.Sandboxes[0].IPs != nil {
		t.Errorf("got %+v", got)
	}
}

func TestAStartThatWasBrokenOffIsNoEndOfAContainer(t *testing.T) {
	for message, want := range map[string]pod.ContainerState{
		"failed to start containerd task: context canceled":          pod.ContainerCreated,
		"failed to start containerd task: context deadline exceeded": pod.ContainerCreated,
		"exec: \"/nowhere\": no such file or directory":              pod.ContainerExited,
	} {
		s := aPod()
		s.statuses["second"] = &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_EXITED, ExitCode: 128, Reason: "StartError", Message: message}
		got, err := clientOf(t, s).Pod(t.Context(), "uid")
		if err != nil || got.Containers[0].State != want {
			t.Errorf("%s: %+v, %v", message, got.Containers, err)
		}
	}
}

func TestAPodIsNotReadInPart(t *testing.T) {
	for _, call := range []string{"ListPodSandbox", "ListContainers", "ContainerStatus", "PodSandboxStatus"} {
		s := aPod()
		s.fails = map[string]error{call: errors.New("disk full")}
		if got, err := clientOf(t, s).Pod(t.Context(), "uid"); err == nil || len(got.Containers) != 0 {
			t.Errorf("%s failed, and what is known is %+v, %v", call, got, err)
		}
	}
}

func TestListKnowsEveryPodAndLeavesOutWhatIsNoPod(t *testing.T) {
	s := aPod()
	for i, state := range []runtimeapi.ContainerState{
		runtimeapi.ContainerState_CONTAINER_CREATED, runtimeapi.ContainerState_CONTAINER_RUNNING,
		runtimeapi.ContainerState_CONTAINER_EXITED, runtimeapi.ContainerState_CONTAINER_UNKNOWN,
	} {
		s.containers = append(s.containers, &runtimeapi.Container{
			Id: state.String(), Labels: labels("other", state.String()), State: state, CreatedAt: moment(int64(-i)),
		})
	}
	got, err := clientOf(t, s).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got["uid"] == nil || len(got["uid"].Sandboxes) != 2 || len(got["uid"].Containers) != 2 {
		t.Fatalf("got %v", got)
	}
	var states []pod.ContainerState
	for _, c := range got["other"].Containers {
		states = append(states, c.State)
	}
	want := []pod.ContainerState{pod.ContainerCreated, pod.ContainerRunning, pod.ContainerExited, pod.ContainerUnknown}
	if !reflect.DeepEqual(states, want) {
		t.Errorf("got %v, want %v", states, want)
	}
}

func TestEventsSayWhichPodAndWhen(t *testing.T) {
	s := &server{events: make(chan *runtimeapi.ContainerEventResponse, 4)}
	s.events <- &runtimeapi.ContainerEventResponse{CreatedAt: moment(1), PodSandboxStatus: &runtimeapi.PodSandboxStatus{Labels: labels("a", "")}}
	s.events <- &runtimeapi.ContainerEventResponse{CreatedAt: moment(2)} // of no pod
	s.events <- &runtimeapi.ContainerEventResponse{
		CreatedAt: moment(3), ContainersStatuses: []*runtimeapi.ContainerStatus{{}, {Labels: labels("b", "app")}},
	}
	close(s.events) // the stream ends
	var got []Event
	opened := 0
	err := clientOf(t, s).Events(t.Context(), func() { opened++ }, func(e Event) { got = append(got, e) })
	want := []Event{{UID: "a", At: time.Unix(0, moment(1))}, {UID: "b", At: time.Unix(0, moment(3))}}
	if !reflect.DeepEqual(got, want) || opened != 1 {
		t.Errorf("got %v, opened %d times", got, opened)
	}
	if err == nil || IsUnimplemented(err) {
		t.Errorf("the end of the stream is an error, and not that there is none: %v", err)
	}
}

func TestARuntimeWithoutEventsSaysSo(t *testing.T) {
	err := clientOf(t, &server{}).Events(t.Context(), func() {}, func(Event) { t.Error("an event") })
	if !IsUnimplemented(err) {
		t.Errorf("got %v", err)
	}
}

func TestEventsEndWithTheirContext(t *testing.T) {
	s := &server{events: make(chan *runtimeapi.ContainerEventResponse)}
	defer close(s.events)
	ctx, cancel := context.WithCancel(t.Context())
	if err := clientOf(t, s).Events(ctx, cancel, func(Event) {}); err == nil {
		t.Error("want an error")
	}
}
