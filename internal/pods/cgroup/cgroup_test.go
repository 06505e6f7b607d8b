package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/host/mounts"
)

func TestMountsOfBothVersionsAreFound(t *testing.T) {
	const mountinfo = `22 27 0:21 / /proc rw,relatime - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:1 - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
50 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
`
	want := []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"}
	var got []string
	for _, h := range hierarchiesIn(tableOf(t, mountinfo)) {
		got = append(got, h.mount)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func tableOf(t *testing.T, mountinfo string) mounts.Table {
	t.Helper()
	table, err := mounts.Parse(strings.NewReader(mountinfo))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestTreeIsRemovedFromEveryHierarchy(t *testing.T) {
	// given the same cgroup in one hierarchy, with children, and in another without
	cpu, memory, pids := t.TempDir(), t.TempDir(), t.TempDir()
	mkdir(t, cpu, "berth/pod1/c1/deep")
	mkdir(t, cpu, "berth/pod2")
	mkdir(t, memory, "berth/pod1")
	tree := at(cpu, memory, pids)

	// when it is removed, twice
	for range 2 {
		if err := tree.remove(t.Context(), "/berth/pod1"); err != nil {
			t.Fatal(err)
		}
	}

	// then it is gone, and its neighbour is not
	for _, dir := range []string{cpu, memory, pids} {
		if exists(t, dir, "berth/pod1") {
			t.Errorf("pod1 is still in %s", dir)
		}
	}
	if !exists(t, cpu, "berth/pod2") {
		t.Error("pod2 was removed with pod1")
	}
}

func TestParentGoesOnlyWhenEmpty(t *testing.T) {
	cpu := t.TempDir()
	mkdir(t, cpu, "berth/pod1")
	tree := at(cpu)

	if err := tree.removeIfEmpty("/berth"); err != nil || !exists(t, cpu, "berth/pod1") {
		t.Fatalf("a parent with children: err %v, child there %v", err, exists(t, cpu, "berth/pod1"))
	}
	if err := tree.remove(t.Context(), "/berth/pod1"); err != nil {
		t.Fatal(err)
	}
	if err := tree.removeIfEmpty("/berth"); err != nil || exists(t, cpu, "berth") {
		t.Errorf("an empty parent: err %v, there %v", err, exists(t, cpu, "berth"))
	}
}

func TestDangerousPathsAreRefused(t *testing.T) {
	mount := t.TempDir()
	mkdir(t, mount, "keep")
	tree := at(filepath.Join(mount, "keep"))
	for _, path := range []string{"", "/", "//", "/.", "berth", "/berth/../..", "/..", "../keep"} {
		if err := tree.remove(t.Context(), path); err == nil {
			t.Errorf("Remove(%q) was not refused", path)
		}
		if err := tree.removeIfEmpty(path); err == nil {
			t.Errorf("removeIfEmpty(%q) was not refused", path)
		}
	}
	if !exists(t, mount, "keep") {
		t.Error("the hierarchy itself was removed")
	}
}

// A directory with a file in it can't be removed, as a cgroup with a process can't.
func TestFullCgroupIsAnErrorThatNamesIt(t *testing.T) {
	mount := t.TempDir()
	mkdir(t, mount, "berth/pod1")
	if err := os.WriteFile(filepath.Join(mount, "berth/pod1/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := at(mount).remove(t.Context(), "/berth/pod1")
	if !errors.Is(err, syscall.ENOTEMPTY) || !strings.Contains(err.Error(), "berth/pod1") {
		t.Errorf("got %v", err)
	}
}

func TestBusyCgroupIsTriedAgainForAWhile(t *testing.T) {
	for _, test := range []struct {
		name    string
		freeAt  time.Duration
		removed bool
	}{
		{"free in time", busyTimeout / 2, true},
		{"never free", time.Hour, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := retryBusy(t.Context(), func() error {
					if time.Since(began) < test.freeAt {
						return syscall.EBUSY
					}
					return nil
				})
				if (err == nil) != test.removed {
					t.Errorf("got error %v", err)
				}
				if took := time.Since(began); took > busyTimeout+busyInterval {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}

func TestRetryEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := retryBusy(ctx, func() error { return syscall.EBUSY }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func mkdir(t *testing.T, elem ...string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(elem...), 0o700); err != nil {
		t.Fatal(err)
	}
}

func exists(t *testing.T, elem ...string) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join(elem...))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func TestChildrenOfAllHierarchies(t *testing.T) {
	cpu, memory := t.TempDir(), t.TempDir()
	for _, dir := range []string{filepath.Join(cpu, "berth/podb"), filepath.Join(memory, "berth/poda"), filepath.Join(memory, "berth/podb")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got, err := at(cpu, memory, t.TempDir()).Children("/berth")
	if want := []string{"poda", "podb"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// at is for hierarchies that are mounted at known places.
func at(mounts ...string) *Tree {
	t := &Tree{}
	for _, m := range mounts {
		t.hierarchies = append(t.hierarchies, hierarchy{mount: m})
	}
	return t
}
