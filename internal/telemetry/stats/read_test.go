package stats

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/runtime/cri"
)

func TestManyReadersCostAsMuchAsOne(t *testing.T) {
	w := newWorld(t)
	w.run(t, "web")
	r := w.reader(t)
	if _, err := r.Read(t.Context(), Brief); err != nil {
		t.Fatal(err)
	}
	once := w.reads

	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := r.Read(t.Context(), Brief); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()

	if w.reads != once {
		t.Errorf("cgroups were read %d times, and %d is enough", w.reads, once)
	}
	if _, err := r.Read(t.Context(), Full); err != nil {
		t.Fatal(err)
	}
	if w.reads == once {
		t.Error("a brief snapshot was given to a caller that asked for all")
	}
}

func TestAReaderThatGoesAwayDoesNotWait(t *testing.T) {
	r := newWorld(t).reader(t)
	r.turn <- struct{}{} // a measurement is in progress
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if _, err := r.Read(ctx, Brief); err == nil || !strings.Contains(err.Error(), "read stats") {
		t.Errorf("got %v", err)
	}
}

func TestOnlyRunningContainersAreListed(t *testing.T) {
	w := newWorld(t)
	w.run(t, "web")
	w.run(t, "ended")
	w.known[1].Sandboxes[0].State = pod.SandboxNotReady
	w.known[1].Containers[0].State = pod.ContainerExited
	r := w.reader(t)

	s, err := r.Read(t.Context(), Brief)
	if err != nil {
		t.Fatal(err)
	}

	if len(s.Pods) != 1 || s.Pods[0].Name != "web" || len(s.Pods[0].Containers) != 1 {
		t.Errorf("got %+v", s.Pods)
	}
}

func TestAContainerWithoutACgroupIsAskedOfTheRuntime(t *testing.T) {
	w := newWorld(t)
	w.run(t, "vm")
	w.children["/berth/poduid-vm"] = nil
	w.podStats = []cri.PodStats{{Containers: []cri.ContainerStats{{
		ID: "id-vm", CPU: cri.CPU{At: time.Now(), Total: new(uint64(42)), Rate: new(uint64(7))},
		Memory: cri.Memory{WorkingSet: new(uint64(11)), Usage: new(uint64(12)), Available: new(uint64(9))},
	}}}}
	r := w.reader(t)

	s, err := r.Read(t.Context(), Brief)
	if err != nil {
		t.Fatal(err)
	}

	c := s.Pods[0].Containers[0]
	if *c.CPU != 42 || *c.Rate != 7 || c.Memory.WorkingSet != 11 || *c.Memory.Limit != 20 {
		t.Errorf("got %+v, %+v", c.Usage, c.Memory)
	}
}

func TestOnlyTheFullSummaryHasPressureAndDisks(t *testing.T) {
	w := newWorld(t)
	w.run(t, "web")
	r := w.reader(t)
	for scope, want := range map[Scope]bool{Brief: false, Full: true} {
		r.snapshot = nil
		s, err := r.Read(t.Context(), scope)
		if err != nil {
			t.Fatal(err)
		}

		c := s.Pods[0].Containers[0]
		if got := len(c.Disks) == 1 && c.Disks[0].Reads == 3 && c.Detail.OOMKills != nil; got != want {
			t.Errorf("scope %d: container: %+v, %+v", scope, c.Disks, c.Detail)
		}
		some := s.Node.Detail.IOPressure.Some
		if got := len(s.Node.Disks) == 1 && some != nil && *some == 7000; got != want {
			t.Errorf("scope %d: node: %+v, %+v", scope, s.Node.Disks, s.Node.Detail)
		}
	}
}

func TestARuntimeThatFailsCostsOnlyWhatItKnows(t *testing.T) {
	w := newWorld(t)
	w.run(t, "web")
	w.broken = true
	r := w.reader(t)

	s, err := r.Read(t.Context(), Full)
	if err != nil {
		t.Fatal(err)
	}

	c := s.Pods[0].Containers[0]
	if c.Writable != nil || s.Node.Images != nil || c.CPU == nil || c.Logs == nil {
		t.Errorf("got %+v", c)
	}
}

func TestClaimsAreListedOnce(t *testing.T) {
	w := newWorld(t)
	w.run(t, "one", claim("data", "orders"), emptyDir("scratch"))
	w.run(t, "two", claim("disk", "orders"))
	r := w.reader(t)

	claims := r.Claims(t.Context())

	if len(claims) != 1 || claims[0].Namespace != "shop" || claims[0].Name != "orders" || *claims[0].Capacity == 0 {
		t.Errorf("got %+v", claims)
	}
}

func TestLogsOfRunningContainers(t *testing.T) {
	w := newWorld(t)
	w.run(t, "web")
	r := w.reader(t)

	logs := r.Logs(t.Context())

	if len(logs) != 1 || logs[0].UID != "uid-web" || logs[0].Namespace != "shop" || logs[0].Pod != "web" || logs[0].Container != "app" || *logs[0].Used < 5000 {
		t.Errorf("got %+v", logs)
	}
}

func TestAReadThatHangsDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Given a file system that does not answer, and one that does,
		group := run.NewGroup(t.Context(), slog.New(slog.DiscardHandler))
		answer := make(chan struct{})
		var looks atomic.Int32
		m := newMeter(group, func(_ context.Context, p place) *Filesystem {
			if p.path == "/stuck" {
				looks.Add(1)
				<-answer
			}
			return &Filesystem{At: time.Now(), Used: new(uint64(1))}
		})
		places := []place{{path: "/stuck"}, {path: "/good"}}

		// when they are asked for, again and again,
		began := time.Now()
		for range 3 {
			got := m.measure(t.Context(), places)
			if got[0] != nil || got[1] == nil {
				t.Errorf("got %v", got)
			}
			time.Sleep(time.Minute)
		}

		// then a reader waits for a moment only, and the stuck file system is not asked twice.
		if waited := time.Since(began) - 3*time.Minute; waited > 3*measureTimeout {
			t.Errorf("waited %v", waited)
		}
		if looks.Load() != 1 {
			t.Errorf("it was asked %d times", looks.Load())
		}
		close(answer)
		synctest.Wait()
		if got := m.measure(t.Context(), places); got[0] == nil {
			t.Error("its answer was lost")
		}
		group.Stop()
	})
}

func TestFilesAreCountedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := run.NewGroup(t.Context(), slog.New(slog.DiscardHandler))
		var looks atomic.Int32
		m := newMeter(group, func(context.Context, place) *Filesystem {
			looks.Add(1)
			time.Sleep(10 * time.Second) // a large volume
			return &Filesystem{}
		})
		for range 100 { // for ten minutes
			m.measure(t.Context(), []place{{"/large", true}})
			time.Sleep(6 * time.Second)
		}
		if n := looks.Load(); n < 2 || n > 3 {
			t.Errorf("ten minutes had %d counts of ten seconds each", n)
		}
		time.Sleep(forgetAfter + time.Second)
		m.measure(t.Context(), nil)
		if len(m.places) != 0 {
			t.Error("what nobody asks for is kept")
		}
		group.Stop()
	})
}

func TestCount(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), make([]byte, 4096), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "0"), filepath.Join(dir, "again")); err != nil {
		t.Fatal(err)
	}

	used, files, err := count(t.Context(), dir)

	if err != nil || files != 4 || used < 3*4096 || used > 5*4096 {
		t.Errorf("got %d bytes in %d files, %v", used, files, err)
	}
	if measurePlace(t.Context(), place{filepath.Join(dir, "gone"), true}) != nil {
		t.Error("what is gone was measured")
	}
}

func TestNewSaysWhatIsMissing(t *testing.T) {
	_, err := New(t.Context(), Config{})

	if err == nil || !strings.Contains(err.Error(), "no runtime") || !strings.Contains(err.Error(), "no name") {
		t.Errorf("got %v", err)
	}
}
