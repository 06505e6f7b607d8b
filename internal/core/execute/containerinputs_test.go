package execute

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/runtime/render"
)

func (n *node) hosts(p *v1.Pod) string {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.Host.PodsDir, string(p.UID), "etc-hosts"))
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}

func TestTheNamesOfAPodAreWrittenForItsAddress(t *testing.T) {
	onNode(t, 2, func(n *node) {
		p := web("a", "app")
		n.settle(p)
		first := n.have(p).Sandbox().IPs
		if len(first) == 0 || !strings.Contains(n.hosts(p), first[0]+"\tweb-a\n") {
			t.Fatalf("%v is not in\n%s", first, n.hosts(p))
		}

		// when the sandbox is gone, then the new one has another address
		if err := n.runtime.StopSandbox(t.Context(), n.have(p).Sandbox().ID); err != nil {
			t.Fatal(err)
		}
		n.settle(p)
		second := n.have(p).Sandbox().IPs
		if second[0] == first[0] || !strings.Contains(n.hosts(p), second[0]+"\tweb-a\n") || strings.Contains(n.hosts(p), first[0]+"\t") {
			t.Errorf("%v, and before %v, is not in\n%s", second, first, n.hosts(p))
		}
	})
}

func TestABadAliasKeepsAPodWaitingAndSaysSo(t *testing.T) {
	onNode(t, 2, func(n *node) {
		p := web("a", "app")
		p.Spec.HostAliases = []v1.HostAlias{{IP: "nowhere"}}
		if _, err := n.sync(p); err == nil {
			t.Fatal("it was accepted")
		}
		n.expectState(p, "app", `CreateContainerConfigError: why: hostAliases: "nowhere" is not an address`)
	})
}

func TestTheCgroupIsThereBeforeTheSandbox(t *testing.T) {
	onNode(t, 2, func(n *node) {
		p := web("a", "app")
		n.noCgroup = errors.New("no room")
		if _, err := n.sync(p); !errors.Is(err, n.noCgroup) {
			t.Fatalf("got %v", err)
		}
		if n.have(p).Sandbox() != nil {
			t.Error("a sandbox was made without a cgroup")
		}
		n.expectState(p, "app", "ContainerCreating: no room")

		n.noCgroup = nil
		n.settle(p)
		made := len(n.made)
		if made == 0 || n.made[0].Name != "/test/besteffort/poda" {
			t.Errorf("made: %v", n.made)
		}
		// Whether swap can be limited is known once there is a cgroup.
		if len(n.askedForSwap) == 0 || slices.Contains(n.askedForSwap, 0) {
			t.Errorf("asked for limits of swap after these numbers of cgroups: %v", n.askedForSwap)
		}
		// when nothing is to be done, then it is left alone
		n.settle(p)
		if len(n.made) != made {
			t.Error("it was made again")
		}
	})
}

func TestAContainerThatMustNotBeRootWaitsAndItsNeighbourRuns(t *testing.T) {
	onNode(t, 2, func(n *node) {
		p := web("a", "app", "other")
		p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{RunAsNonRoot: new(true)}
		for range 3 {
			_, _ = n.sync(p) // it fails for the one, and goes on for the other
		}
		if got := n.state(p, "app"); !strings.HasPrefix(got, "CreateContainerConfigError: why: container has runAsNonRoot and image will run as root") {
			t.Errorf("app is %q", got)
		}
		n.expectState(p, "other", "running")

		// when the image has a user
		n.imageUser = render.User{UID: new(int64(7))}
		n.settle(p)
		n.expectState(p, "app", "running")
	})
}

func TestAContainerWithAnUnknownLabelWaits(t *testing.T) {
	onNode(t, 2, func(n *node) {
		n.RuntimeInfo.CheckLabel = func(asked *v1.SELinuxOptions) error {
			if asked.Type == "lost_t" {
				return errors.New("nobody knows lost_t")
			}
			return nil
		}
		good, lost := &v1.SELinuxOptions{Type: "good_t"}, &v1.SELinuxOptions{Type: "lost_t"}

		// given a pod of which one container asks for it, then the other runs
		p := web("a", "app", "other")
		p.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: good}
		p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{SELinuxOptions: lost}
		for range 3 {
			_, _ = n.sync(p) // it fails for the one, and goes on for the other
		}
		n.expectState(p, "app", "CreateContainerConfigError: why: nobody knows lost_t")
		n.expectState(p, "other", "running")

		// given one that asks for it itself, then no sandbox is made
		p = web("b", "app")
		p.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: lost}
		_, _ = n.sync(p) // it fails
		n.expectState(p, "app", "ContainerCreating: why: nobody knows lost_t")
		if n.have(p).Sandbox() != nil {
			t.Error("a sandbox was made")
		}
	})
}

func TestUsersOfItsOwnAreGivenBackAtTheEnd(t *testing.T) {
	onNode(t, 2, func(n *node) {
		p := web("a", "app")
		n.settle(p)
		if n.users.Allocated(p.UID) {
			t.Error("a pod that did not ask has ids")
		}
		p = web("b", "app")
		p.Spec.HostUsers = new(false)
		n.settle(p)
		if !n.users.Allocated(p.UID) {
			t.Error("it has no ids")
		}
		if err := n.Cleanup(t.Context(), p, n.have(p)); err != nil || n.users.Allocated(p.UID) {
			t.Errorf("after the end: %v, taken %t", err, n.users.Allocated(p.UID))
		}
	})
}

// volumesWithFiles are fake volumes with files that variables can be read from.
type volumesWithFiles struct {
	Volumes
	text map[string]string
}

func (f volumesWithFiles) File(ctx context.Context, p *v1.Pod, volume, path string) (string, error) {
	if text, ok := f.text[volume+"/"+path]; ok {
		return text, nil
	}
	return f.Volumes.File(ctx, p, volume, path)
}

func TestVariablesFromFiles(t *testing.T) {
	onNode(t, 2, func(n *node) {
		n.Volumes = volumesWithFiles{n.volumes, map[string]string{"v/good": "A='1'\nB='2'", "v/bad": "A=1"}}
		p := web("a", "good", "bad", "none", "maybe")
		for i, path := range []string{"good", "bad", "none", "none"} {
			p.Spec.Containers[i].Env = []v1.EnvVar{{Name: "X", ValueFrom: &v1.EnvVarSource{
				FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: path, Key: "B", Optional: new(i == 3)},
			}}}
		}
		for range 3 {
			_, _ = n.sync(p)
		}
		n.expectState(p, "good", "running")
		n.expectState(p, "maybe", "running")
		n.expectState(p, "bad", "CreateContainerConfigError: why: variable X: file bad of volume v: line 1: the value of A must be in single quotes")
		n.expectState(p, "none", "CreateContainerConfigError: why: variable X: couldn't find key B in file none of volume v")
	})
}
