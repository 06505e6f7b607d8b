package execute

import (
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/pods/volume"
)

func withKeyOf(configMap string, p *v1.Pod) *v1.Pod {
	p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "KEY", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{
		LocalObjectReference: v1.LocalObjectReference{Name: configMap}, Key: "key",
	}}}}
	return p
}

func TestAContainerWaitsForWhatItsVariablesReferTo(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := withKeyOf("settings", web("a", "app", "log"))
		if _, err := n.sync(p); err == nil {
			t.Fatal("want an error")
		}
		n.expectState(p, "app", `CreateContainerConfigError: why: variable KEY: configmap "settings" not found`)
		if _, err := n.sync(p); err == nil {
			t.Fatal("want an error")
		}
		n.expectState(p, "log", "running") // its neighbour does not wait
		if !n.objects.Registered(p.UID) {
			t.Error("nobody would notice that the ConfigMap appears")
		}

		n.objects.PutConfigMap("settings", map[string]string{"key": "value"})
		n.settle(p)
		n.expectState(p, "app", "running")
		n.stopped(p)
		if n.objects.Registered(p.UID) {
			t.Error("a pod that ended still has its references watched")
		}
	})
}

func TestAPodWaitsForItsVolumes(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.volumes.Fail(errors.New(`volume "cfg": configmap "settings" not found`))
		if _, err := n.sync(p); err == nil || n.runtime.Calls("RunSandbox") != 0 {
			t.Fatalf("a sandbox was made: %v", err)
		}
		n.expectState(p, "app", `ContainerCreating: volume "cfg": configmap "settings" not found`)
		want := `FailedMount MountVolume.SetUp failed for volume "cfg": configmap "settings" not found`
		if !slices.Contains(n.events.All(), want) {
			t.Errorf("events: %q", n.events.All())
		}
		n.volumes.Fail(nil)
		n.settle(p)
		n.expectState(p, "app", "running")
		if len(n.volumes.TornDown()) != 0 {
			t.Error("the volumes of a running pod were taken down")
		}
		n.stopped(p)
		if !slices.Contains(n.volumes.TornDown(), p.UID) {
			t.Error("its volumes are still there")
		}
	})
}

// using makes a container of p mount a volume.
func using(p *v1.Pod, container, name string) *v1.Pod {
	c := pod.ContainerSpec(p, container)
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	return p
}

func TestAMissingVolumeHoldsUpTheContainersThatUseIt(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := using(using(web("a", "app", "log", "sum"), "app", "disk"), "log", "cfg")
		n.volumes.Fail(volume.Errors{{Volume: "disk", Err: errors.New("is not a directory")}, {Volume: "cfg", Usable: true, Err: errors.New("away")}})
		for range 2 {
			if _, err := n.sync(p); err == nil || !strings.Contains(err.Error(), "is not a directory") {
				t.Fatalf("nobody will try it again: %v", err)
			}
		}
		n.expectState(p, "app", `ContainerCreating: volume "disk": is not a directory`)
		n.expectState(p, "log", "running")
		n.expectState(p, "sum", "running")

		n.volumes.Fail(nil)
		n.settle(p)
		n.expectState(p, "app", "running")
		for _, c := range n.have(p).Containers {
			if c.RestartCount != 0 {
				t.Errorf("%s was restarted", c.Name)
			}
		}
	})
}

func TestNoSandboxIsMadeWhileAllWaitForVolumes(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := using(web("a", "app"), "app", "disk")
		n.volumes.Fail(volume.Errors{{Volume: "disk", Err: errors.New("is not a directory")}})
		if out, err := n.sync(p); err == nil || out.Again || n.runtime.Calls("RunSandbox") != 0 {
			t.Fatalf("a sandbox was made: %+v, %v", out, err)
		}
		n.expectState(p, "app", `ContainerCreating: volume "disk": is not a directory`)
	})
}

func TestWhatRunsIsNotStoppedForWhatHasToWait(t *testing.T) {
	for name, edit := range map[string]func(*v1.Pod){
		"a container":   func(p *v1.Pod) { p.Spec.Containers[0].Image = "app:2" },
		"the whole pod": func(p *v1.Pod) { p.Spec.HostNetwork = true },
	} {
		t.Run(name, func(t *testing.T) {
			onNode(t, 1, func(n *node) {
				p := using(web("a", "app", "log"), "app", "disk")
				n.settle(p)
				before := n.have(p).Container("app").ID

				p = p.DeepCopy()
				edit(p)
				n.volumes.Fail(volume.Errors{{Volume: "disk", Err: errors.New("is not a directory")}})
				if _, err := n.sync(p); err == nil {
					t.Fatal("want an error")
				}
				if c := n.have(p).Container("app"); c.ID != before || c.State != pod.ContainerRunning {
					t.Fatalf("it was stopped, and nothing can take its place: %+v", c)
				}
				n.volumes.Fail(nil)
				n.settle(p)
				if c := n.have(p).Container("app"); c.ID == before || c.State != pod.ContainerRunning {
					t.Errorf("the edit has no effect: %+v", c)
				}
			})
		})
	}
}

func TestAVolumeThatCanNotBeRenewedHoldsUpNoContainer(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.settle(p)
		n.volumes.Fail(volume.Errors{{Volume: "cfg", Usable: true, Err: errors.New("away")}})
		n.exit(p, "app", 1)
		if _, err := n.sync(p); err == nil || !strings.Contains(err.Error(), "away") {
			t.Errorf("got %v", err)
		}
		if c := n.have(p).Container("app"); c.State != pod.ContainerRunning || c.RestartCount != 1 {
			t.Errorf("it was not restarted: %+v", c)
		}
	})
}

func TestAnUnknownRuntimeClassIsNotIgnored(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		p.Spec.RuntimeClassName = new("kata")
		if _, err := n.sync(p); err == nil || n.runtime.Calls("RunSandbox") != 0 {
			t.Fatalf("it was run all the same: %v", err)
		}
		n.expectState(p, "app", `ContainerCreating: why: runtimeclasses "kata" not found`)
	})
}
