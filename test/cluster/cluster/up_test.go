//go:build real

package cluster

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/cluster/kit"
	"berth/test/fixture"
)

func TestMakeClusterGivesAClusterAndTakesItAway(t *testing.T) {
	t.Parallel()
	up := filepath.Join(t.TempDir(), "up")
	if out, err := exec.Command("go", "build", "-o", up, "berth/test/lab/up").CombinedOutput(); err != nil {
		t.Fatalf("build it: %v: %s", err, out)
	}
	root, err := os.MkdirTemp(filepath.Split(kit.Labs))
	kit.Must(t, err)
	kit.Must(t, os.Remove(root))

	// Given one that was killed while pods were running.
	killed := startUp(t, up, root)
	deployHello(t, root)
	kit.Must(t, killed.Process.Kill())
	_ = killed.Wait()

	// When it is started again, then it works as if nothing had been.
	again := startUp(t, up, root)
	deployHello(t, root)

	// When it is asked to end, then nothing is left.
	kit.Must(t, again.Process.Signal(os.Interrupt))
	if err := again.Wait(); err != nil {
		t.Errorf("it ended with: %v", err)
	}
	if left, err := filepath.Glob("/run/netns/*" + filepath.Base(root) + "*"); err != nil || len(left) > 0 {
		t.Errorf("network namespaces are left: %v (%v)", left, err)
	}
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Errorf("folder %s is left (%v)", root, err)
	}
	if left := processesBelow(t, root); len(left) > 0 {
		t.Errorf("processes are left:\n%s", strings.Join(left, "\n"))
	}
}

// startUp returns once the cluster is there. The pipe of its output is closed then. It is killed when
// the test ends.
func startUp(t *testing.T, program, root string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program, "-root", root, "-programs", fixture.BinDir())
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	kit.Must(t, err)
	kit.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	said := make(chan string)
	go func() {
		defer close(said)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said <- lines.Text()
		}
	}()
	late := time.After(90 * time.Second)
	for {
		select {
		case line, more := <-said:
			if strings.HasPrefix(line, "Ctrl-C") {
				_ = out.Close() // as tee does, which Ctrl-C ends first
				for range said {
				}
				return cmd
			}
			if !more {
				t.Fatalf("it ended: %v", cmd.Wait())
			}
		case <-late:
			t.Fatal("there is no cluster after 90 s")
		}
	}
}

// deployHello runs the commands that `make cluster` advises, from the machine's own network.
func deployHello(t *testing.T, root string) {
	t.Helper()
	for _, command := range []string{
		"create deployment hello --image=localhost/hello:1 --replicas=4",
		"rollout status deployment/hello --timeout=60s",
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(fixture.BinDir(), "cluster", "kubectl"), strings.Fields(command)...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(root, "kubeconfig"), "KUBECACHEDIR="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kubectl %s: %v: %s", command, err, out)
		}
	}
}

// processesBelow returns the command lines of processes with a folder among their arguments.
func processesBelow(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	kit.Must(t, err)
	var found []string
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(line), dir+"/") {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
