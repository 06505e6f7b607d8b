package ephemeral

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/statefile"
)

func container(name string) v1.EphemeralContainer {
	return v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: name, Image: "localhost/tools:1"}}
}

func open(t *testing.T, path string) *Store {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	k, err := statefile.New(statefile.Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(k.File(path, "containers for debugging"), log)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func names(s *Store, uid pod.UID) string {
	var all []string
	for _, c := range s.Of(uid) {
		all = append(all, c.Name)
	}
	return strings.Join(all, " ")
}

func TestContainersAreRememberedAndForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "debug.json")
	s := open(t, path)
	for _, name := range []string{"a", "b"} {
		if err := s.Add("u-1", container(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Add("u-2", container("a")); err != nil {
		t.Fatal(err)
	}
	if err := s.Add("u-1", container("b")); err == nil {
		t.Error("a name was taken twice")
	}
	s = open(t, path) // as after a restart
	if names(s, "u-1") != "a b" || names(s, "u-2") != "a" || names(s, "u-3") != "" {
		t.Errorf("got %s and %s", names(s, "u-1"), names(s, "u-2"))
	}
	for range 2 {
		if err := s.Forget("u-1"); err != nil {
			t.Fatal(err)
		}
	}
	if s = open(t, path); names(s, "u-1") != "" || names(s, "u-2") != "a" {
		t.Errorf("got %s and %s", names(s, "u-1"), names(s, "u-2"))
	}
}

func TestFilesThatAreBroken(t *testing.T) {
	if _, err := Open(nil, slog.Default()); err == nil {
		t.Error("got a store without a file")
	}
	path := filepath.Join(t.TempDir(), "debug.json")
	for _, text := range []string{"garbage", `{"u-1": 3}`, "null", ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, path)
		if err := s.Add("u-1", container("a")); err != nil || names(s, "u-1") != "a" {
			t.Errorf("%s: got %v", text, err)
		}
	}
	// One bad entry costs no other.
	if err := os.WriteFile(path, []byte(`{"u-1": 3, "u-2": [{"name": "b", "colour": "red"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := open(t, path); names(s, "u-2") != "b" {
		t.Errorf("got %q", names(s, "u-2"))
	}
	// A disk that can't be written does not prevent debugging.
	s := open(t, filepath.Join("/proc", "debug.json"))
	if err := s.Add("u-1", container("a")); err != nil || names(s, "u-1") != "a" {
		t.Errorf("got %v, and %s", err, names(s, "u-1"))
	}
}
