package clitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth/internal/lib/pod"
)

// Noon is the time at which tests describe pods.
func Noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

// BeforeNoon returns the time d before Noon.
func BeforeNoon(d time.Duration) metav1.Time { return metav1.NewTime(Noon().Add(-d)) }

// CrashingPod returns a pod in CrashLoopBackOff, with a value in every field that 'describe' shows.
func CrashingPod() *v1.Pod {
	p := RunningPod("x", "web", "app")
	p.Labels = map[string]string{"tier": "front", "app": "web"}
	p.Annotations = map[string]string{"note": "two\nlines", "big": strings.Repeat("y", 200)}
	p.Spec.Priority = new(int32(7))
	always := v1.ContainerRestartPolicyAlways
	p.Spec.InitContainers = []v1.Container{{Name: "proxy", Image: "localhost/proxy:1", RestartPolicy: &always}}
	p.Spec.Containers[0] = v1.Container{
		Name: "app", Image: "localhost/app:1", Command: []string{"/app", "--serve"}, Args: []string{"-v"},
		Ports: []v1.ContainerPort{{ContainerPort: 80, HostPort: 8080, Protocol: "TCP"}, {ContainerPort: 53, Protocol: "UDP"}},
		Resources: v1.ResourceRequirements{
			Limits:   v1.ResourceList{"memory": resource.MustParse("64Mi"), "cpu": resource.MustParse("500m")},
			Requests: v1.ResourceList{"cpu": resource.MustParse("100m")},
		},
		LivenessProbe: &v1.Probe{
			ProbeHandler:  v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(80)}},
			PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
		},
		EnvFrom: []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "all"}}}},
		Env: []v1.EnvVar{
			{Name: "MODE", Value: "fast"},
			{Name: "EMPTY"},
			{Name: "NODE", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
			{Name: "TOKEN", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{Key: "k", LocalObjectReference: v1.LocalObjectReference{Name: "s"}}}},
		},
		VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "conf", MountPath: "/etc/app", ReadOnly: true, SubPath: "a"}},
	}
	p.Status = v1.PodStatus{
		Phase: v1.PodRunning, Message: "first\nsecond", Reason: "Because", HostIP: "10.0.0.1", PodIP: "10.1.0.7",
		PodIPs: []v1.PodIP{{IP: "10.1.0.7"}, {IP: "fd00::7"}}, StartTime: new(BeforeNoon(time.Hour)), QOSClass: v1.PodQOSBurstable,
		Conditions: []v1.PodCondition{
			{Type: v1.PodInitialized, Status: v1.ConditionTrue},
			{Type: v1.PodReady, Status: v1.ConditionFalse, Reason: "ContainersNotReady", Message: "app"},
		},
		ContainerStatuses: []v1.ContainerStatus{{
			Name: "app", ContainerID: "containerd://two", ImageID: "sha256:abc", RestartCount: 3,
			State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 40s"}},
			LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
				Reason: "Error", ExitCode: 1, Message: "bad\x1b[31m\nworse", StartedAt: BeforeNoon(2 * time.Minute), FinishedAt: BeforeNoon(time.Minute),
			}},
		}},
	}
	return p
}

// NewEvent returns an event of a pod of a manifest on node-1, which happened so long ago.
func NewEvent(namespace, manifest, reason, message string, ago time.Duration) *v1.Event {
	at := metav1.NewTime(time.Now().Add(-ago))
	return &v1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: manifest + "." + strings.ToLower(reason)},
		InvolvedObject: v1.ObjectReference{
			Kind: "Pod", Namespace: namespace, Name: manifest + "-node-1",
			UID: pod.UID(namespace + "-" + manifest), FieldPath: "spec.containers{app}",
		},
		Type: v1.EventTypeNormal, Reason: reason, Message: message, Count: 1,
		FirstTimestamp: at, LastTimestamp: at, Source: v1.EventSource{Component: "berth", Host: "node-1"},
	}
}

// Repeated returns e as a warning that happened count times, the first time so long ago.
func Repeated(e *v1.Event, count int32, ago time.Duration) *v1.Event {
	e.Count, e.Type = count, v1.EventTypeWarning
	e.FirstTimestamp = metav1.NewTime(time.Now().Add(-ago))
	return e
}

// WaitingState returns the state of a container that waits.
func WaitingState(reason string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
}

// RunningPod returns a pod on node-1 whose containers run and are ready.
func RunningPod(namespace, name string, containers ...string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name + "-node-1", UID: pod.UID(namespace + "-" + name),
			CreationTimestamp: metav1.NewTime(time.Now().Add(-90 * time.Second)),
			Annotations:       map[string]string{pod.AnnotationSource: pod.SourceFile},
		},
		Spec: v1.PodSpec{NodeName: "node-1"},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, PodIP: "10.0.0.7",
			Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}},
		},
	}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c, Image: "localhost/app:1"})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
			Name: c, ContainerID: "containerd://" + c, Ready: true,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		})
	}
	return p
}

// GoodPod is a manifest that the agent would take.
const GoodPod = `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: x}
spec:
  restartPolicy: Never
  containers: [{name: app, image: "localhost/app:1"}]
`

// Folder makes a folder with files.
func Folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
