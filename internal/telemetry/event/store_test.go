package event

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// started is an event of a pod, which n tells from others.
func started(podName string, n int) *v1.Event {
	e := newEvent(defaultComponent, "node-1", refer(newPod("x", podName), ""), v1.EventTypeNormal, Started, fmt.Sprint(podName, " ", n), time.Now())
	e.Name = fmt.Sprint(podName, ".", n)
	return e
}

func TestAStoreKeepsTheNewest(t *testing.T) {
	s := openStore(t, StoreConfig{Max: 4, PerPod: 2})
	for n := range 3 {
		s.Add(started("web", n))
	}
	wantTexts(t, s, "1x Started web 1", "1x Started web 2")
	s.Add(started("a", 0))
	s.Add(started("b", 0))
	// What happens again is the newest
	again := started("web", 1)
	again.Count = 2
	s.Add(again)
	wantTexts(t, s, "1x Started web 2", "1x Started a 0", "1x Started b 0", "2x Started web 1")
	s.Add(started("c", 0))
	wantTexts(t, s, "1x Started a 0", "1x Started b 0", "2x Started web 1", "1x Started c 0")
}

func TestList(t *testing.T) {
	s := openStore(t, StoreConfig{})
	other := started("web-node-1", 1)
	other.Namespace, other.InvolvedObject.Namespace, other.InvolvedObject.UID = "y", "y", "uid-other"
	s.Add(started("web-node-1", 0))
	s.Add(started("db", 0))
	s.Add(other)
	for _, c := range []struct {
		namespace, name, uid string
		want                 int
	}{
		{"", "", "", 3},
		{"x", "", "", 2},
		{"", "web-node-1", "", 2},
		{"", "web", "", 2}, // the name in the manifest
		{"y", "web", "", 1},
		{"", "", "uid-other", 1},
		{"x", "", "uid-other", 0},
		{"", "node-1", "", 0},
	} {
		if got := s.List(c.namespace, c.name, pod.UID(c.uid)); len(got) != c.want {
			t.Errorf("%+v: got %d events, want %d", c, len(got), c.want)
		}
	}
	// What happens to the node is in the default namespace, and to no pod
	s.Add(newEvent(defaultComponent, "node-1", referNode("node-1"), v1.EventTypeNormal, "NodeReady", "up", time.Now()))
	if got := s.List("default", "", "node-1"); len(got) != 1 {
		t.Errorf("got %d events of the node", len(got))
	}
	if got := s.List("", "node-1", ""); len(got) != 0 {
		t.Errorf("got %d events of a pod that is not there", len(got))
	}
	// A pod of just that name goes before one of the manifest
	s.Add(started("web", 0))
	if got := s.List("", "web", ""); len(got) != 1 || got[0].InvolvedObject.Name != "web" {
		t.Errorf("got %d events, want the one of pod web", len(got))
	}
}

func TestWatchersAreNotifiedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, StoreConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		changed := s.Watch(ctx)
		s.Add(started("web", 0))
		s.Add(started("web", 1))
		<-changed
		select {
		case <-changed:
			t.Error("notified twice")
		default:
		}
		s.Add(started("web", 2))
		<-changed
		cancel()
		synctest.Wait()
		s.Add(started("web", 3))
		if len(changed) > 0 || len(s.watchers) > 0 {
			t.Error("notified after its end")
		}
	})
}

func TestEventsAreThereAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "events")
	before := openStore(t, StoreConfig{Path: path})
	before.Add(started("web", 0))
	before.Add(started("web", 1))
	before.Add(started("web", 0)) // once more
	after := openStore(t, StoreConfig{Path: path})
	wantTexts(t, after, "1x Started web 1", "1x Started web 0")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v (%v), want a file of the owner's alone", info, err)
	}
}

func TestATornLineIsLeftOut(t *testing.T) {
	// Given a file whose last line was cut by a crash, and which has damage
	path := filepath.Join(t.TempDir(), "events")
	openStore(t, StoreConfig{Path: path}).Add(started("web", 0))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	torn := string(text) + "\x00\x00not JSON\n{}\n" + string(text[:len(text)/2])
	if err := os.WriteFile(path, []byte(torn), 0o600); err != nil {
		t.Fatal(err)
	}
	// When it is read and written to
	s := openStore(t, StoreConfig{Path: path})
	wantTexts(t, s, "1x Started web 0")
	s.Add(started("web", 1))
	// Then the new line is whole
	wantTexts(t, openStore(t, StoreConfig{Path: path}), "1x Started web 0", "1x Started web 1")
}

func TestTheFilesStaySmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	s := openStore(t, StoreConfig{Path: path})
	s.journal.limit = 4096
	const added = 50
	for n := range added {
		s.Add(started("web", n))
	}
	for _, file := range []string{path, path + ".old"} {
		if info, err := os.Stat(file); err != nil || info.Size() > 4096 || info.Size() == 0 {
			t.Errorf("%s: %v (%v), want at most 4096 bytes", file, info, err)
		}
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 2 {
		t.Errorf("got %d files (%v), want 2", len(files), err)
	}
	// The newest are those that are kept, in their order
	got := texts(openStore(t, StoreConfig{Path: path}))
	if len(got) < 6 {
		t.Fatalf("got %q, want what two files hold", got)
	}
	for i, text := range got {
		if want := fmt.Sprintf("1x Started web %d", added-len(got)+i); text != want {
			t.Errorf("got %q, want %q", text, want)
		}
	}
}

func TestAWriteErrorIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "events")
	// Given something in the way of the file
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, StoreConfig{Path: path, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if got := log.String(); strings.Count(got, "from before") != 1 {
		t.Errorf("got log %q, want that there is no history", got)
	}
	for n := range 3 {
		s.Add(started("web", n))
	}
	// When it goes away
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		s.Add(started("web", 3+n))
	}
	// Then the failure was logged once, and its end, and events were in memory
	if got := log.String(); strings.Count(got, "can't write events") != 1 || strings.Count(got, "wrote events") != 1 {
		t.Errorf("got log %s", got)
	}
	if got := len(s.List("", "", "")); got != 6 {
		t.Errorf("got %d events, want 6", got)
	}
	// and those from before are in the file now, too
	if got := len(openStore(t, StoreConfig{Path: path}).List("", "", "")); got != 6 {
		t.Errorf("%d events are written down, want 6", got)
	}
}
