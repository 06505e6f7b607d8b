//go:build real

package bundle

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/internal/host/proc"
	"berth/internal/runtime/ociarchive"
)

func TestLifeOfTheRuntime(t *testing.T) {
	// given a folder with an archive, and nothing that runs
	m := newMachine(t)
	m.drop("hello.tar", m.archive("localhost/hello:1", ociarchive.Write))

	// when the agent starts, then its images are there before it is reported as ready
	a := m.startAgent()
	receive(t, "up", a.up)
	if len(a.imported) != 1 || !slices.Equal(<-a.imported, []string{"localhost/hello:1"}) {
		t.Fatal("image of the folder was not imported before the runtime was up")
	}
	first := a.startPod("one", "localhost/hello:1", 18080)

	// when containerd is killed, then it is noticed at once, another one comes up,
	// and the container did not notice
	old, killed := a.pid(), time.Now()
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if after := receive(t, "down", a.down).Sub(killed); after > 100*time.Millisecond {
		t.Errorf("death was noticed after %s", after)
	}
	t.Log("up again after", receive(t, "up again", a.up).Sub(killed))
	if a.pid() == old || !first.running() {
		t.Errorf("pid %d after %d, container running: %v", a.pid(), old, first.running())
	}

	// when the agent goes and comes back, then it adopts what runs
	running := a.pid()
	a.stop()
	if a.pid() != running {
		t.Fatal("containerd did not outlive the agent")
	}
	setConfigOfRunning(t, a, "that of an earlier version")
	b := m.startAgent()
	receive(t, "up after adoption", b.up)
	if n := m.log.count("older configuration"); n != 1 {
		t.Errorf("the log tells %d times of the older configuration", n)
	}
	if b.pid() != running || !first.running() {
		t.Errorf("adopted %d, want %d; container running: %v", b.pid(), running, first.running())
	}
	if len(b.imported) != 0 {
		t.Error("an archive was imported again")
	}

	// when the adopted one is killed, which is no child of the agent, likewise
	killed = time.Now()
	if err := syscall.Kill(running, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if after := receive(t, "down", b.down).Sub(killed); after > 100*time.Millisecond {
		t.Errorf("death of the adopted was noticed after %s", after)
	}
	receive(t, "up", b.up)

	// when a docker archive appears, and a packed one, then pods can use both
	m.drop("docker.tar", m.archive("localhost/docker:2", ociarchive.WriteDocker))
	if names := receive(t, "import", b.imported); !slices.Equal(names, []string{"localhost/docker:2"}) {
		t.Errorf("imported %v", names)
	}
	second := b.startPod("two", "localhost/docker:2", 18081)
	m.drop("packed.tar.gz", []byte(gzipped(t, string(m.archive("localhost/packed:3", ociarchive.Write)))))
	if names := receive(t, "import", b.imported); !slices.Equal(names, []string{"localhost/packed:3"}) {
		t.Errorf("imported %v", names)
	}

	// when pods are removed and the runtime is taken down, then nothing is left
	first.remove()
	second.remove()
	b.stop()
	takeDown(t, m, b)
}

func TestARuntimeThatHangsIsReplaced(t *testing.T) {
	// given a pod, and a short timeout for a runtime that does not answer
	m := newMachine(t)
	m.silence = 6 * time.Second
	m.drop("hello.tar", m.archive("localhost/hello:1", ociarchive.Write))
	a := m.startAgent()
	receive(t, "up", a.up)
	pod := a.startPod("one", "localhost/hello:1", 18080)

	// when containerd stands still, then it is killed, and another one has the pod
	old, stopped := a.pid(), time.Now()
	if err := syscall.Kill(old, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if after := receive(t, "down", a.down).Sub(stopped); after < m.silence {
		t.Errorf("it was killed after %s", after)
	}
	receive(t, "up again", a.up)
	if a.pid() == old || !pod.running() {
		t.Errorf("pid %d after %d, container running: %v", a.pid(), old, pod.running())
	}

	// when it stands still and there is no agent, then the next agent does the same
	a.stop()
	old = a.pid()
	if err := syscall.Kill(old, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b := m.startAgent()
	receive(t, "up after adoption", b.up)
	if b.pid() == old || !pod.running() {
		t.Errorf("pid %d after %d, container running: %v", b.pid(), old, pod.running())
	}
	pod.remove()
	b.stop()
	takeDown(t, m, b)
}

func TestTeardownAfterEverythingWasKilled(t *testing.T) {
	// given a pod with a host port and limits, and no agent any more
	m := newMachine(t)
	m.drop("hello.tar", m.archive("localhost/hello:1", ociarchive.Write))
	a := m.startAgent()
	receive(t, "up", a.up)
	receive(t, "import", a.imported)
	a.startPod("one", "localhost/hello:1", 18080)
	m.mustShow("mounts", "links", "iptables-save", "processes", "cached results")
	a.stop()

	// when containerd is killed, and then all is taken down
	if err := syscall.Kill(a.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	takeDown(t, m, a)

	// then the images are still there for the next start
	b := m.startAgent()
	receive(t, "up", b.up)
	if len(b.imported) != 0 {
		t.Error("an archive was imported again")
	}
	b.startPod("two", "localhost/hello:1", 18080)
	b.stop()

	// when the shims are killed too, so that only the containers are left
	for _, match := range []func(proc.Info) bool{b.rt.paths.isContainerd, b.rt.paths.isShim} {
		found, err := proc.Table{Dir: "/proc"}.Find(match)
		if err != nil || len(found) == 0 {
			t.Fatal("nothing to kill", err)
		}
		for _, p := range found {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	takeDown(t, m, b)
}

func TestHalfWrittenArchive(t *testing.T) {
	m := newMachine(t)
	a := m.startAgent()
	receive(t, "up", a.up)

	// given an archive of which a half is there, and a writer that has stopped
	whole := m.archive("localhost/late:1", ociarchive.Write)
	m.drop("late.tar", whole[:len(whole)/2])
	m.log.await(t, "image archive is not imported")

	// when the rest arrives, then it is imported, and the log had one line about it
	m.drop("late.tar", whole)
	if names := receive(t, "import", a.imported); !slices.Equal(names, []string{"localhost/late:1"}) {
		t.Errorf("imported %v", names)
	}
	if n := m.log.count("image archive is not imported"); n != 1 {
		t.Errorf("the log has %d lines about it", n)
	}
	a.stop()
	takeDown(t, m, a)
}

func TestNamesOfOtherTools(t *testing.T) {
	m := newMachine(t)
	// given an archive with nothing but a tag, and one with a name that has no host: both
	// are the archives of ours, with some bytes of their index changed
	tagged := m.archive("localhost/x:7", ociarchive.Write)
	m.drop("tagged.tar", bytes.Replace(tagged, []byte("io.containerd.image.name"), []byte("io.containerd.image.none"), 1))
	short := m.archive("localhost/x:1", ociarchive.Write)
	m.drop("short.tar", bytes.Replace(short, []byte("localhost/x:1"), []byte("shortname-x:1"), 1))

	a := m.startAgent()
	receive(t, "up", a.up)
	// then the first is named after its file, and the second is refused, with advice
	if names := receive(t, "import", a.imported); !slices.Equal(names, []string{"localhost/tagged:7"}) {
		t.Errorf("imported %v", names)
	}
	m.log.await(t, "save the image as localhost/shortname-x:1")
	a.startPod("one", "localhost/tagged:7", 18080).remove()
	a.stop()
	takeDown(t, m, a)
}

func takeDown(t *testing.T, m *machine, a *agent) {
	t.Helper()
	for range 2 { // the second time there is nothing to do
		if err := a.rt.Teardown(context.Background()); err != nil {
			t.Fatal(err)
		}
		m.mustBeAsBefore()
	}
}

// setConfigOfRunning makes it look as if containerd had been started by another version.
func setConfigOfRunning(t *testing.T, a *agent, config string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	l := newLauncher(a.rt.paths, log)
	l.pids = newState(t, log).File(a.rt.paths.pidFile, "which process is containerd")
	record, err := l.readPidFile()
	if err != nil {
		t.Fatal(err)
	}
	l.writePidFile(proc.Info{PID: record.PID, Start: record.Start}, config)
}

// logBuffer is the agent's log, to be read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
	wake chan struct{}
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wake != nil {
		close(b.wake)
		b.wake = nil
	}
	return b.text.Write(p)
}

func (b *logBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), text)
}

func (b *logBuffer) await(t *testing.T, text string) {
	t.Helper()
	for {
		b.mu.Lock()
		found := strings.Contains(b.text.String(), text)
		wake := make(chan struct{})
		if b.wake != nil {
			wake = b.wake
		}
		b.wake = wake
		b.mu.Unlock()
		if found {
			return
		}
		receive(t, "a line in the log: "+text, wake)
	}
}
