//go:build real

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/host/doctor"
	"berth/test/real/kit"
)

// once is 'run --once' of a pod on a root directory of its own, which is below
// the test's. Whatever is left of it at the end is found by the node.
func once(n *kit.Node, p *v1.Pod, more ...string) *exec.Cmd {
	n.T.Helper()
	file := filepath.Join(n.Dir, "once.yaml")
	n.ReplaceFile(file, kit.Manifest(n.T, p))
	args := append([]string{
		"run", "--once", "-f", file, "--images", filepath.Join(n.Root, "images"), "--root-dir", filepath.Join(n.Dir, "o"), "--pod-cidr", n.PodCIDR,
	}, more...)
	ctx, cancel := context.WithTimeout(context.Background(), kit.CommandTimeout)
	n.T.Cleanup(cancel)
	return exec.CommandContext(ctx, n.Program, args...)
}

// nothingLeft checks that there are no processes and mounts below the folder of the test.
func nothingLeft(n *kit.Node) {
	n.T.Helper()
	for pid, text := range n.OwnProcesses() {
		n.T.Errorf("process %d is left: %s", pid, text)
	}
	if left := n.Mounts(); len(left) > 0 {
		n.T.Errorf("mounts are left: %v", left)
	}
}

func TestOnceEndsWithTheCodeOfThePod(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	p := kit.JobPod("complain", "oh no", "3")
	if got := n.RunCommand(once(n, p)); got.Code != 3 || got.Out != "oh no\n" || got.Stderr != "" {
		t.Errorf("got %s", got)
	}
	nothingLeft(n)

	// A second one on the same root finds nothing of the first in its way. Several
	// lines have the names of their containers, and init containers come first.
	p.Spec.InitContainers = []v1.Container{kit.NewContainer("first", "activity", "a", "0s", "2s")}
	p.Spec.Containers[0].Args = []string{"activity", "b", "0s", "1ms"}
	got := n.RunCommand(once(n, p))
	at := -1
	for _, line := range []string{"[first] a start ", "[first] a end ", "[app] b start ", "[app] b end "} {
		next := strings.Index(got.Out, line)
		if next <= at {
			t.Errorf("%q is not where it should be", line)
		}
		at = next
	}
	if got.Code != 0 {
		t.Errorf("got %s", got)
	}
	nothingLeft(n)
}

func TestOnceWithoutARootLeavesNone(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	ctx, cancel := context.WithTimeout(t.Context(), kit.CommandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.Program, "run", "--once", "-f", "-", "--images", filepath.Join(n.Root, "images"))
	cmd.Stdin = bytes.NewReader(kit.Manifest(t, kit.JobPod("activity", "a", "0s", "1ms")))
	if got := n.RunCommand(cmd); got.Code != 0 || !strings.Contains(got.Out, "a end ") || got.Stderr != "" {
		t.Errorf("got %s", got)
	}
}

func TestOnceIsStopped(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	cmd := once(n, kit.JobPod("activity", "a", "200ms"))
	out := &kit.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := n.Inside(cmd.Start); err != nil {
		t.Fatal(err)
	}
	n.Wait("the container to write", kit.StartTimeout, func() string {
		if !strings.Contains(out.String(), "a start ") {
			return "a start"
		}
		return ""
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // how it ended is in the process state
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(out.String(), "a term ") || !strings.Contains(out.String(), "a end ") {
		t.Errorf("got code %d, and\n%s", code, out.String())
	}
	nothingLeft(n)
}

func TestOnceThatTakesTooLong(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	began := time.Now()
	got := n.RunCommand(once(n, kit.JobPod("sleep"), "--timeout", "8s"))
	if got.Code != 124 || !strings.Contains(got.Stderr, "had not ended after 8s, and was stopped") {
		t.Errorf("got %s after %s", got, time.Since(began))
	}
	nothingLeft(n)
}

func TestOnceOnARootThatIsInUse(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	n.Start()
	file := filepath.Join(n.Dir, "once.yaml")
	n.ReplaceFile(file, kit.Manifest(t, kit.JobPod("sleep")))
	got := n.Berth("run", "--once", "-f", file)
	if got.Code != 125 || !strings.Contains(got.Stderr, "another berth (pid ") {
		t.Errorf("got %s", got)
	}
}

func TestDoctorIsContentWithThisMachine(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	got := n.Berth("doctor", "-o", "json")
	var findings []doctor.Finding
	if err := json.Unmarshal([]byte(got.Out), &findings); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if got.Code != 0 || len(findings) < 20 {
		t.Errorf("got code %d, %d findings", got.Code, len(findings))
	}
	for _, f := range findings {
		if f.State == doctor.Fail {
			t.Errorf("got %+v", f)
		}
	}
}

func TestDiffSaysWhatAnEditDoes(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	n.Start()
	p := kit.NewPod("web", "sleep")
	n.Apply("web.yaml", p)
	n.Wait("the pod to run", kit.StartTimeout, func() string {
		if got := n.MustBerth("get", "pods", "-o", "jsonpath={.items[*].status.phase}"); got != "Running" {
			return fmt.Sprintf("phase %q", got)
		}
		return ""
	})
	if got := n.Berth("diff", "-f", n.Manifests); got.Code != 0 || got.Out != "" {
		t.Errorf("nothing was edited, and it says %s", got)
	}
	edited := filepath.Join(n.Dir, "edited")
	if err := os.Mkdir(edited, 0o755); err != nil {
		t.Fatal(err)
	}
	p.Spec.Containers[0].Args = []string{"stubborn"}
	n.ReplaceFile(filepath.Join(edited, "web.yaml"), kit.Manifest(t, p))
	n.ReplaceFile(filepath.Join(edited, "new.yaml"), kit.Manifest(t, kit.NewPod("new", "sleep")))
	got := n.Berth("diff", "-f", edited)
	for _, want := range []string{"pod default/new-node would be started", "pod default/web-node would be replaced: stopped within 5 s", "\n+    - stubborn\n", "\n-    - sleep\n"} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("there is no %q in %s", want, got)
		}
	}
	if got.Code != 1 {
		t.Errorf("got code %d", got.Code)
	}
	uid := n.MustBerth("get", "pods", "web", "-o", "jsonpath={.metadata.uid}")
	n.ReplaceFile(filepath.Join(n.Manifests, "web.yaml"), kit.Manifest(t, p))
	n.Wait("the pod to be replaced", kit.StartTimeout, func() string {
		if got := n.Berth("get", "pods", "web", "-o", "jsonpath={.metadata.uid}"); got.Code != 0 || got.Out == uid || got.Out == "" {
			return "another UID: " + got.String()
		}
		return ""
	})
}

func TestTheNodeIsShown(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	n.Start()
	p := kit.NewPod("web", "sleep")
	p.Spec.Volumes = []v1.Volume{{Name: "tmp", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "tmp", MountPath: "/data"}}
	n.Apply("web.yaml", p)
	n.Wait("the pod to run", kit.StartTimeout, func() string {
		if got := n.MustBerth("get", "pods"); !strings.Contains(got, "Running") {
			return "a pod that runs: " + got
		}
		return ""
	})
	for command, want := range map[string][]string{
		"get node -o wide":   {kit.NodeName + " ", " Ready ", "containerd://"},
		"describe node":      {"Allocatable:\n", "web-node", "KubeletReady"},
		"get images":         {"localhost/workload ", "localhost/berth-pause "},
		"get volumes":        {"web-node", "emptyDir", "memory"},
		"describe pod web":   {"Volumes:\n  tmp:\n    Type:    emptyDir\n"},
		"get images -o yaml": {"- default/web-node\n"},
	} {
		got := n.MustBerth(strings.Fields(command)...)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("berth %s: there is no %q in\n%s", command, w, got)
			}
		}
	}
}
