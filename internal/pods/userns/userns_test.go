package userns

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/lib/pod"
	"berth/internal/runtime/render"
)

func newManager(t *testing.T, dir string, count uint32) *Manager {
	t.Helper()
	m, err := New(Config{PodsDir: dir, Count: count, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func take(t *testing.T, m *Manager, uid pod.UID) render.IDs {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(m.cfg.PodsDir, string(uid)), 0o700); err != nil {
		t.Fatal(err)
	}
	ids, err := m.Allocate(uid)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestEachPodHasItsOwnIDsAndKeepsThem(t *testing.T) {
	dir := t.TempDir()
	m := newManager(t, dir, 0)

	// given two pods
	a, b := take(t, m, "a"), take(t, m, "b")
	if a != (render.IDs{First: 65536, Count: 65536}) || b != (render.IDs{First: 131072, Count: 65536}) {
		t.Fatalf("a has %v, b has %v", a, b)
	}
	// when they are asked for again, by this manager and by one that was started later
	again := newManager(t, dir, 0)
	for _, m := range []*Manager{m, again} {
		if got := take(t, m, "b"); got != b {
			t.Errorf("b has %v, and had %v", got, b)
		}
	}
	// then no other pod gets them
	if c := take(t, again, "c"); c.First != 3*65536 {
		t.Errorf("c has %v", c)
	}

	// when a is gone, then its ids are free
	if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	again.Release("a")
	if d := take(t, again, "d"); d != a {
		t.Errorf("d has %v", d)
	}
}

func TestRangesOfAnotherSizeDoNotOverlap(t *testing.T) {
	dir := t.TempDir()
	small := newManager(t, dir, 0)
	take(t, small, "a")
	take(t, small, "b")
	if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	// The hole that a left is too small.
	if got := take(t, newManager(t, dir, 2*65536), "wide"); got != (render.IDs{First: 3 * 65536, Count: 2 * 65536}) {
		t.Errorf("got %v", got)
	}
}

func TestWhileARecordIsBrokenItsIDsAreNotGiven(t *testing.T) {
	for name, text := range map[string]string{
		"no record":        "x",
		"nothing":          "{}",
		"the machine's":    `{"uidMappings":[{"hostId":0,"length":65536}],"gidMappings":[{"hostId":0,"length":65536}]}`,
		"past the end":     `{"uidMappings":[{"hostId":4294901760,"length":65537}],"gidMappings":[{"hostId":4294901760,"length":65537}]}`,
		"not alike":        `{"uidMappings":[{"hostId":65536,"length":65536}],"gidMappings":[{"hostId":131072,"length":65536}]}`,
		"none":             `{"uidMappings":[{"hostId":65536,"length":0}],"gidMappings":[{"hostId":65536,"length":0}]}`,
		"not from root on": `{"uidMappings":[{"hostId":65536,"containerId":1,"length":9}],"gidMappings":[{"hostId":65536,"containerId":1,"length":9}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "bad"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "bad", "userns"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			m := newManager(t, dir, 0)
			if ids, err := m.Allocate("bad"); err == nil || !strings.Contains(err.Error(), "broken") {
				t.Errorf("got %v, %v", ids, err)
			}
			if ids, err := m.Allocate("good"); err == nil || !strings.Contains(err.Error(), "remove that pod first") {
				t.Errorf("another pod got %v, %v", ids, err)
			}
			m.Release("bad")
			take(t, m, "good")
		})
	}
}

func TestBadNamesAndSizesAreRefused(t *testing.T) {
	m := newManager(t, t.TempDir(), 0)
	for _, uid := range []pod.UID{"", ".", "..", "a/b", "../x"} {
		if ids, err := m.Allocate(uid); err == nil {
			t.Errorf("%q got %v", uid, ids)
		}
	}
	for _, count := range []uint32{1, 65535, 65537, 1<<31 + 65536} {
		if _, err := New(Config{PodsDir: t.TempDir(), Count: count, Log: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("%d ids for a pod were accepted", count)
		}
	}
}

func TestWhenAllAreTakenItIsSaid(t *testing.T) {
	m := newManager(t, t.TempDir(), 1<<31)
	take(t, m, "a")
	if err := os.Mkdir(filepath.Join(m.cfg.PodsDir, "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if ids, err := m.Allocate("b"); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Errorf("got %v, %v", ids, err)
	}
}

func TestNoIDsOfPodsOfOtherAgentsAreGiven(t *testing.T) {
	// given two agents that know of each other
	dirs := [2]string{t.TempDir(), t.TempDir()}
	var agents [2]*Manager
	for i := range agents {
		m, err := New(Config{
			PodsDir: dirs[i], Log: slog.New(slog.DiscardHandler),
			Others: func(give func([]string) error) error { return give([]string{dirs[1-i]}) },
		})
		if err != nil {
			t.Fatal(err)
		}
		agents[i] = m
	}

	// then no two of their pods have an id in common
	have := map[uint32]pod.UID{}
	for i, uid := range []pod.UID{"a", "b", "c", "d"} {
		first := take(t, agents[i%2], uid).First
		if have[first] != "" {
			t.Errorf("%s and %s have the ids from %d on", uid, have[first], first)
		}
		have[first] = uid
	}

	// and those of a pod that is gone are free for the other agent
	if err := os.RemoveAll(filepath.Join(dirs[1], "b")); err != nil {
		t.Fatal(err)
	}
	agents[1].Release("b")
	if e := take(t, agents[0], "e"); have[e.First] != "b" {
		t.Errorf("e has %v, and b had less and is gone", e)
	}

	// and a record that can't be read there does not prevent anything here
	if err := os.WriteFile(filepath.Join(dirs[1], "d", fileName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	take(t, agents[0], "f")
}
