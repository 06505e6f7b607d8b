package measure

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEachContainerThatEndsIsCountedOnce(t *testing.T) {
	w, page := watcher(t)
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
	ended := func(id string, code int32, at time.Time) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: id, ExitCode: code, Reason: "Error", FinishedAt: metav1.NewTime(at)}}
	}
	status := func(last, now v1.ContainerState) *v1.PodStatus {
		return &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "app", LastTerminationState: last, State: now}}}
	}
	before, now := time.Now().Add(-time.Hour), time.Now()
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}

	w.StatusChanged(p, status(v1.ContainerState{}, ended("old", 1, before))) // an earlier agent has seen it
	w.StatusChanged(p, status(ended("old", 1, before), running))
	w.StatusChanged(p, status(ended("old", 1, before), ended("a", 3, now)))
	w.StatusChanged(p, status(ended("a", 3, now), running))
	w.StatusChanged(p, status(ended("a", 3, now), ended("b", 3, now)))
	w.StatusChanged(p, status(ended("a", 3, now), ended("b", 3, now)))

	lines(t, page(), `kubelet_terminated_containers_total{container_type="container",exit_code="3",reason="Error"} 2`)
	if strings.Contains(page(), `exit_code="1"`) {
		t.Error("a container that ended before the agent started is counted")
	}
	w.Gone("uid")
	if len(w.terminated.byPod) != 0 {
		t.Errorf("%v is remembered of a pod that is gone", w.terminated.byPod)
	}
}
