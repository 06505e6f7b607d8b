package execute

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// allocated returns how many bytes f allocates, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// restarts syncs a pod, whose container has ended, until that runs again.
func (n *node) restarts(p *v1.Pod) {
	n.t.Helper()
	for range 10 {
		outcome := n.settle(p)
		if n.state(p, "app") == "running" {
			return
		}
		time.Sleep(time.Until(outcome.Due))
	}
	n.t.Fatal("it does not run again")
}

// hostsTricks are replacements of the hosts file that a container, or a pod with a hostPath, can
// make.
func hostsTricks(path string) map[string]func() error {
	return map[string]func() error{
		"a sparse file": func() error { return os.Truncate(path, 1<<30) },
		"a pipe":        func() error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o644)) },
		"a link":        func() error { return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path)) },
		"nothing":       func() error { return os.Remove(path) },
	}
}

func TestWhateverAContainerMakesOfItsHostsFileIsReplaced(t *testing.T) {
	for name := range hostsTricks("") {
		t.Run(name, func(t *testing.T) {
			onNode(t, 1, func(n *node) {
				p := web("a", "app")
				n.settle(p)
				want := n.hosts(p)
				// given a container that does this to /etc/hosts and ends
				path := filepath.Join(n.Host.PodsDir, "a", "etc-hosts")
				if err := hostsTricks(path)[name](); err != nil {
					t.Fatal(err)
				}
				n.exit(p, "app", 1)
				// when it is restarted
				used := allocated(func() { n.restarts(p) })
				// then it has its names again, and that cost nothing
				info, err := os.Lstat(path)
				if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 || n.hosts(p) != want {
					t.Errorf("%v, %v", info, err)
				}
				if used > 16<<20 {
					t.Errorf("the restart took %d bytes of memory", used)
				}
			})
		})
	}
}

func (n *node) terminationMessageFiles(p *v1.Pod) string {
	n.t.Helper()
	files, err := os.ReadDir(filepath.Join(n.Host.PodsDir, string(p.UID), "containers", "app"))
	if err != nil {
		n.t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	return strings.Join(names, " ")
}

func withMessage(p *v1.Pod) *v1.Pod {
	p.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
	return p
}

func TestTerminationMessagesOfARemovedContainerGo(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := withMessage(web("a", "app"))
		n.settle(p)
		for i := range 5 {
			path := filepath.Join(n.Host.PodsDir, "a", "containers", "app", fmt.Sprint(i))
			if err := os.WriteFile(path, []byte("life "+fmt.Sprint(i)), 0o666); err != nil {
				t.Fatal(err)
			}
			n.exit(p, "app", 1)
			n.restarts(p)
			// then those that the runtime has are there: the one that runs, and the one before
			if got, want := n.terminationMessageFiles(p), fmt.Sprint(i, " ", i+1); got != want {
				t.Fatalf("after restart %d there are %q, want %q", i+1, got, want)
			}
		}
		s, _ := n.Reports.Statuses.Get("a")
		if last := s.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.Message != "life 4" {
			t.Errorf("got %+v", last)
		}
	})
}

func TestWhatAnEarlierAgentLeftOfTerminationMessagesGoesAtTheNextStart(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := withMessage(web("a", "app"))
		dir := filepath.Join(n.Host.PodsDir, "a", "containers", "app")
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "3", "x"), 0o755), os.WriteFile(filepath.Join(dir, "7"), nil, 0o666),
			syscall.Mkfifo(filepath.Join(dir, "0"), 0o666)); err != nil {
			t.Fatal(err)
		}
		n.settle(p)
		info, err := os.Lstat(filepath.Join(dir, "0"))
		if got := n.terminationMessageFiles(p); got != "0" || err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o666 {
			t.Errorf("there are %q: %v, %v", got, info, err)
		}
	})
}

func TestATerminationMessageIsTheEndOfARegularFile(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(path string) error
		want int
	}{
		"a sparse file": {func(path string) error { return os.Truncate(path, 1<<40) }, maxTerminationMessage},
		"a pipe":        {func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o666)) }, 0},
		"a link":        {func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path)) }, 0},
		"a link above it": {func(path string) error {
			dir := filepath.Dir(path)
			return errors.Join(os.WriteFile(path, []byte("secret"), 0o600), os.Rename(dir, dir+"-moved"), os.Symlink(dir+"-moved", dir))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onNode(t, 1, func(n *node) {
				p := withMessage(web("a", "app"))
				p.Spec.RestartPolicy = v1.RestartPolicyNever
				n.settle(p)
				if err := c.do(filepath.Join(n.Host.PodsDir, "a", "containers", "app", "0")); err != nil {
					t.Fatal(err)
				}
				n.exit(p, "app", 1)
				var got string
				used := allocated(func() {
					n.settle(p)
					s, _ := n.Reports.Statuses.Get("a")
					got = s.ContainerStatuses[0].State.Terminated.Message
				})
				if len(got) != c.want || used > 16<<20 {
					t.Errorf("got %.20q (%d bytes), want %d bytes; %d bytes of memory", got, len(got), c.want, used)
				}
			})
		})
	}
}

func TestOnlyTheLinkToTheLogOfARemovedContainerGoes(t *testing.T) {
	onNode(t, 1, func(n *node) {
		p := web("a", "app")
		n.settle(p)
		for range 3 {
			n.exit(p, "app", 1)
			n.restarts(p)
		}
		links, err := os.ReadDir(n.Host.LogLinksDir)
		if err != nil || len(links) != 2 {
			t.Fatalf("%v, %v", links, err)
		}
		for _, l := range links {
			if !slices.ContainsFunc(n.have(p).Containers, func(c pod.Container) bool { return strings.HasSuffix(l.Name(), "-"+c.ID+".log") }) {
				t.Errorf("%s is of no container", l.Name())
			}
		}
	})
}
