//go:build real

package real

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/host/doctor"
)

// once is 'run --once' of a pod on a root directory of its own, which is below
// the test's. Whatever is left of it at the end is found by the node.
func (n *node) once(p *v1.Pod, more ...string) *exec.Cmd {
	n.t.Helper()
	file := filepath.Join(n.dir, "once.yaml")
	n.put(file, manifest(n.t, p))
	args := append([]string{
		"run", "--once", "-f", file, "--images", filepath.Join(n.root, "images"), "--root-dir", filepath.Join(n.dir, "o"), "--pod-cidr", n.podCIDR,
	}, more...)
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	n.t.Cleanup(cancel)
	return exec.CommandContext(ctx, n.program, args...)
}

// jobPod is a pod that ends.
func jobPod(args ...string) *v1.Pod {
	p := newPod("job", args...)
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	return p
}

// nothingLeft looks for processes and mounts below the folder of the test.
func (n *node) nothingLeft() {
	n.t.Helper()
	for pid, text := range n.processes() {
		n.t.Errorf("process %d is left: %s", pid, text)
	}
	if left := n.mounts(); len(left) > 0 {
		n.t.Errorf("mounts are left: %v", left)
	}
}

func TestOnceEndsWithTheCodeOfThePod(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	p := jobPod("complain", "oh no", "3")
	if got := n.run(n.once(p)); got.code != 3 || got.out != "oh no\n" || got.stderr != "" {
		t.Errorf("got %s", got)
	}
	n.nothingLeft()

	// A second one on the same root finds nothing of the first in its way. Several
	// containers are told apart, and init containers come first.
	p.Spec.InitContainers = []v1.Container{newContainer("first", "diary", "a", "0s", "2s")}
	p.Spec.Containers[0].Args = []string{"diary", "b", "0s", "1ms"}
	got := n.run(n.once(p))
	at := -1
	for _, line := range []string{"[first] a start ", "[first] a end ", "[app] b start ", "[app] b end "} {
		next := strings.Index(got.out, line)
		if next <= at {
			t.Errorf("%q is not where it should be", line)
		}
		at = next
	}
	if got.code != 0 {
		t.Errorf("got %s", got)
	}
	n.nothingLeft()
}

func TestOnceWithoutARootLeavesNone(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.program, "run", "--once", "-f", "-", "--images", filepath.Join(n.root, "images"))
	cmd.Stdin = bytes.NewReader(manifest(t, jobPod("diary", "a", "0s", "1ms")))
	if got := n.run(cmd); got.code != 0 || !strings.Contains(got.out, "a end ") || got.stderr != "" {
		t.Errorf("got %s", got)
	}
}

func TestOnceIsStopped(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	cmd := n.once(jobPod("diary", "a", "200ms"))
	out := &buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := n.Inside(cmd.Start); err != nil {
		t.Fatal(err)
	}
	n.wait("the container to write", startLimit, func() string {
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
	n.nothingLeft()
}

func TestOnceThatTakesTooLong(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	began := time.Now()
	got := n.run(n.once(jobPod("sleep"), "--timeout", "8s"))
	if got.code != 124 || !strings.Contains(got.stderr, "had not ended after 8s, and was stopped") {
		t.Errorf("got %s after %s", got, time.Since(began))
	}
	n.nothingLeft()
}

func TestOnceOnARootThatIsInUse(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	file := filepath.Join(n.dir, "once.yaml")
	n.put(file, manifest(t, jobPod("sleep")))
	got := n.berth("run", "--once", "-f", file)
	if got.code != 125 || !strings.Contains(got.stderr, "another berth (pid ") {
		t.Errorf("got %s", got)
	}
}

// buffer may be read while a command writes to it.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestDoctorIsContentWithThisMachine(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	got := n.berth("doctor", "-o", "json")
	var findings []doctor.Finding
	if err := json.Unmarshal([]byte(got.out), &findings); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if got.code != 0 || len(findings) < 20 {
		t.Errorf("got code %d, %d findings", got.code, len(findings))
	}
	for _, f := range findings {
		if f.State == doctor.Fail {
			t.Errorf("got %+v", f)
		}
	}
}

func TestDiffSaysWhatAnEditDoes(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	p := newPod("web", "sleep")
	n.apply("web.yaml", p)
	n.wait("the pod to run", startLimit, func() string {
		if got := n.must("get", "pods", "-o", "jsonpath={.items[*].status.phase}"); got != "Running" {
			return fmt.Sprintf("phase %q", got)
		}
		return ""
	})
	if got := n.berth("diff", "-f", n.manifests); got.code != 0 || got.out != "" {
		t.Errorf("nothing was edited, and it says %s", got)
	}
	edited := filepath.Join(n.dir, "edited")
	if err := os.Mkdir(edited, 0o755); err != nil {
		t.Fatal(err)
	}
	p.Spec.Containers[0].Args = []string{"stubborn"}
	n.put(filepath.Join(edited, "web.yaml"), manifest(t, p))
	n.put(filepath.Join(edited, "new.yaml"), manifest(t, newPod("new", "sleep")))
	got := n.berth("diff", "-f", edited)
	for _, want := range []string{"pod default/new-node would be started", "pod default/web-node would be replaced: stopped within 5 s", "\n+    - stubborn\n", "\n-    - sleep\n"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("there is no %q in %s", want, got)
		}
	}
	if got.code != 1 {
		t.Errorf("got code %d", got.code)
	}
	uid := n.must("get", "pods", "web", "-o", "jsonpath={.metadata.uid}")
	n.put(filepath.Join(n.manifests, "web.yaml"), manifest(t, p))
	n.wait("the pod to be replaced", startLimit, func() string {
		if got := n.berth("get", "pods", "web", "-o", "jsonpath={.metadata.uid}"); got.code != 0 || got.out == uid || got.out == "" {
			return "another UID: " + got.String()
		}
		return ""
	})
}

func TestTheNodeIsShown(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	p := newPod("web", "sleep")
	p.Spec.Volumes = []v1.Volume{{Name: "tmp", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "tmp", MountPath: "/data"}}
	n.apply("web.yaml", p)
	n.wait("the pod to run", startLimit, func() string {
		if got := n.must("get", "pods"); !strings.Contains(got, "Running") {
			return "a pod that runs: " + got
		}
		return ""
	})
	for command, want := range map[string][]string{
		"get node -o wide":   {nodeName + " ", " Ready ", "containerd://"},
		"describe node":      {"Allocatable:\n", "web-node", "KubeletReady"},
		"get images":         {"localhost/workload ", "localhost/berth-pause "},
		"get volumes":        {"web-node", "emptyDir", "memory"},
		"describe pod web":   {"Volumes:\n  tmp:\n    Type:    emptyDir\n"},
		"get images -o yaml": {"- default/web-node\n"},
	} {
		got := n.must(strings.Fields(command)...)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("berth %s: there is no %q in\n%s", command, w, got)
			}
		}
	}
}
