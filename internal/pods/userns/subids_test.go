package userns

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/lib/pod"
	"berth/internal/runtime/render"
)

// machine is one whose owner has set ids aside, or not.
func machine(users, groups string) Machine {
	return Machine{
		HasUser: func(name string) error {
			if name == "kubelet" {
				return nil
			}
			return user.UnknownUserError(name)
		},
		GetSubIDs: func(_ context.Context, args ...string) ([]byte, error) {
			switch strings.Join(args, " ") {
			case "kubelet":
				return []byte(users), nil
			case "-g kubelet":
				return []byte(groups), nil
			}
			return nil, errors.New("asked for somebody else")
		},
	}
}

func TestIDsThatWereSetAsideAreFound(t *testing.T) {
	const line = "0: kubelet 1048576 655360\n"
	got, err := SubordinateIDs(t.Context(), machine(line, line))
	if want := (render.IDs{First: 1048576, Count: 655360}); err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestWithoutAKubeletNothingIsSetAside(t *testing.T) {
	nobody := machine("x", "x")
	nobody.HasUser = func(name string) error { return user.UnknownUserError(name) }
	untold := machine("", "")
	untold.GetSubIDs = func(context.Context, ...string) ([]byte, error) {
		return nil, &exec.Error{Name: "getsubids", Err: exec.ErrNotFound}
	}
	for name, m := range map[string]Machine{"no such user": nobody, "nobody to ask": untold} {
		if got, err := SubordinateIDs(t.Context(), m); err != nil || got != (render.IDs{}) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestIDsThatNoPodCanHaveAreRefused(t *testing.T) {
	const good = "0: kubelet 65536 65536\n"
	for name, test := range map[string]struct{ users, groups, says string }{
		"none":               {"", "", "one range"},
		"several":            {good + "1: kubelet 262144 65536\n", good + "1: kubelet 262144 65536\n", "one range"},
		"others for groups":  {good, "0: kubelet 131072 65536\n", "the same"},
		"no numbers":         {"0: kubelet a b\n", "0: kubelet a b\n", "not a range"},
		"the machine's own":  {"0: kubelet 0 655360\n", "0: kubelet 0 655360\n", "65536"},
		"from the middle on": {"0: kubelet 100000 655360\n", "0: kubelet 100000 655360\n", "multiple of 65536"},
		"up to the middle":   {"0: kubelet 65536 100000\n", "0: kubelet 65536 100000\n", "multiple of 65536"},
		"past the end":       {"0: kubelet 4294901760 131072\n", "0: kubelet 4294901760 131072\n", "4294967296"},
		"nothing":            {"0: kubelet 65536 0\n", "0: kubelet 65536 0\n", "65536"},
	} {
		if got, err := SubordinateIDs(t.Context(), machine(test.users, test.groups)); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	for name, m := range map[string]Machine{
		"of users": {
			HasUser:   func(string) error { return errors.New("no answer") },
			GetSubIDs: func(context.Context, ...string) ([]byte, error) { return []byte(good), nil },
		},
		"of ids": {
			HasUser:   func(string) error { return nil },
			GetSubIDs: func(context.Context, ...string) ([]byte, error) { return nil, errors.New("no answer") },
		},
	} {
		if got, err := SubordinateIDs(t.Context(), m); err == nil || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("nothing is known %s: got %v, %v", name, got, err)
		}
	}
}

func TestTheProgramOfTheMachineIsAsked(t *testing.T) {
	// given a program that answers for one user only
	dir := t.TempDir()
	const script = `#!/bin/sh
[ "$*" = "-g kubelet" ] && echo "0: kubelet 65536 65536" && exit
echo "nobody knows $*" >&2
exit 1
`
	if err := os.WriteFile(filepath.Join(dir, "getsubids"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	ask := ThisMachine().GetSubIDs
	if got, err := ask(t.Context(), "-g", "kubelet"); err != nil || string(got) != "0: kubelet 65536 65536\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := ask(t.Context(), "me"); err == nil || !strings.Contains(err.Error(), "nobody knows me") {
		t.Errorf("got %q, %v", got, err)
	}
	// and where there is none
	t.Setenv("PATH", t.TempDir())
	if got, err := ask(t.Context(), "kubelet"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("got %q, %v", got, err)
	}
}

func withRange(t *testing.T, dir string, count uint32, find func() (render.IDs, error)) *Manager {
	t.Helper()
	m, err := New(Config{PodsDir: dir, Count: count, Range: find, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func always(first, count uint32) func() (render.IDs, error) {
	return func() (render.IDs, error) { return render.IDs{First: first, Count: count}, nil }
}

func TestPodsAreGivenIDsThatWereSetAside(t *testing.T) {
	dir := t.TempDir()
	// given a pod that has ids from before they were set aside
	old := take(t, newManager(t, dir, 0), "old")

	// then it keeps them, and others are given what was set aside
	m := withRange(t, dir, 0, always(1<<20, 2*65536))
	if got := take(t, m, "old"); got != old {
		t.Errorf("it had %v, and has %v", old, got)
	}
	if a, b := take(t, m, "a"), take(t, m, "b"); a != (render.IDs{First: 1 << 20, Count: 65536}) || b != (render.IDs{First: 1<<20 + 65536, Count: 65536}) {
		t.Errorf("a has %v, b has %v", a, b)
	}
	refused(t, m, "c", "taken")
}

func TestARangeEndsBeforeTheIDThatMeansNone(t *testing.T) {
	m := withRange(t, t.TempDir(), 0, always(0xfffe0000, 0x20000))
	if a := take(t, m, "a"); a.First != 0xfffe0000 {
		t.Errorf("got %v", a)
	}
	refused(t, m, "b", "taken")
}

func TestARangeThatIsTooSmallForAPodIsSaid(t *testing.T) {
	refused(t, withRange(t, t.TempDir(), 2*65536, always(65536, 65536)), "a", "131072")
}

func TestUntilTheRangeIsKnownNoIDsAreGiven(t *testing.T) {
	// given a pod with ids, and a machine that can't say who may have which
	dir := t.TempDir()
	old := take(t, newManager(t, dir, 0), "old")
	asked, answer := 0, errors.New("no answer")
	m := withRange(t, dir, 0, func() (render.IDs, error) {
		asked++
		return render.IDs{First: 1 << 20, Count: 1 << 20}, answer
	})

	// then that pod keeps its IDs, and other pods get an error
	if got := take(t, m, "old"); got != old || asked > 0 {
		t.Errorf("it had %v, and has %v, after %d questions", old, got, asked)
	}
	refused(t, m, "new", "no answer")

	// when it can, then the next one has ids, and it need not be asked again
	answer = nil
	if got := take(t, m, "new"); got.First != 1<<20 {
		t.Errorf("got %v", got)
	}
	if take(t, m, "another"); asked != 2 {
		t.Errorf("it was asked %d times", asked)
	}
}

func refused(t *testing.T, m *Manager, uid pod.UID, says string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(m.cfg.PodsDir, string(uid)), 0o700); err != nil {
		t.Fatal(err)
	}
	if ids, err := m.Allocate(uid); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%s has %v, %v", uid, ids, err)
	}
}
