package orphan

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/internal/host/roots"
	"berth/internal/host/roots/rootstest"
	"berth/internal/lib/pod"
)

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestListFindsPodsWithLeftovers(t *testing.T) {
	root := t.TempDir()
	logs := filepath.Join(root, "logs")
	d := Dirs{Pods: filepath.Join(root, "pods"), Owner: logsIn(t, logs), Cgroups: cgroups{}}
	if got, err := d.List(); err != nil || got == nil || len(got) != 0 {
		t.Fatalf("before there are directories: %v, %v", got, err)
	}
	mkdir(t, filepath.Join(d.Pods, "data-only"))
	mkdir(t, filepath.Join(d.Pods, "both"))
	mkdir(t, filepath.Join(logs, "shop_web_both"))
	mkdir(t, filepath.Join(logs, "shop_db_logs-only"))
	mkdir(t, filepath.Join(logs, "not-ours"))
	mkdir(t, filepath.Join(logs, "not_ours_at_all"))
	for _, noUID := range []string{"a_b_", "a_b_.", "a_b_.."} {
		mkdir(t, filepath.Join(logs, noUID))
	}
	for _, file := range []string{filepath.Join(d.Pods, "file"), filepath.Join(logs, "a_b_file")} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := d.List()
	want := map[pod.UID]*pod.Observed{
		"data-only": {UID: "data-only"},
		"both":      {UID: "both", Namespace: "shop", Name: "web"},
		"logs-only": {UID: "logs-only", Namespace: "shop", Name: "db"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestADirectoryThatCanNotBeReadIsNotAnEmptyOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range []Dirs{
		{Pods: file, Owner: logsIn(t, t.TempDir()), Cgroups: cgroups{}},
		{Pods: t.TempDir(), Owner: logsIn(t, file), Cgroups: cgroups{}},
	} {
		if _, err := d.List(); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("got %v", err)
		}
	}
}

// cgroups are the cgroups of a machine, and whether they have processes.
type cgroups map[string]bool

func (c cgroups) List() ([]string, error) {
	if c == nil {
		return nil, errors.New("no cgroups here")
	}
	return slices.Sorted(maps.Keys(c)), nil
}

func (c cgroups) Occupied(name string) (bool, error) { return c[name], nil }

func logsIn(t *testing.T, dir string) roots.Owner {
	t.Helper()
	return rootstest.Owner(t, roots.Claim{LogsDir: dir})
}

// Another agent, of an older version, may have its pods in the same cgroup.
func TestACgroupWithProcessesAndNothingElseIsNotOurs(t *testing.T) {
	d := Dirs{Pods: t.TempDir(), Owner: logsIn(t, t.TempDir()), Cgroups: cgroups{"podours": true, "podleft": false, "podtheirs": true}}
	mkdir(t, filepath.Join(d.Pods, "ours"))
	got, err := d.List()
	if want := []pod.UID{"left", "ours"}; err != nil || !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestLogsThatAreNotOursAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	mkdir(t, filepath.Join(dir, "shop_web_1"))
	if err := os.Symlink(filepath.Join(dir, "gone.log"), filepath.Join(dir, "dead.log")); err != nil {
		t.Fatal(err)
	}
	d := Dirs{Pods: t.TempDir(), Owner: roots.Owner{}, Links: dir, Cgroups: cgroups{}}
	if got, err := d.List(); err != nil || len(got) > 0 {
		t.Errorf("got %v, %v", got, err)
	}
	if err := d.RemoveDeadLinks(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "dead.log")); err != nil {
		t.Error(err)
	}
}

func TestPodsThatLeftOnlyACgroupAreListed(t *testing.T) {
	d := Dirs{Pods: t.TempDir(), Owner: logsIn(t, t.TempDir()), Cgroups: cgroups{"pod17": false, "other": false, "pod": false}}
	got, err := d.List()
	if err != nil || len(got) != 1 || got["17"] == nil {
		t.Fatalf("got %v, %v", got, err)
	}
	d.Cgroups = cgroups(nil)
	if _, err := d.List(); err == nil {
		t.Fatal("it was not reported that cgroups can't be listed")
	}
}

func TestOnlyOurDeadLinksAreRemoved(t *testing.T) {
	logs, links := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(logs, "0.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"alive.log": filepath.Join(logs, "0.log"), "dead.log": filepath.Join(logs, "1.log"), "foreign.log": "/nowhere/1.log",
	} {
		if err := os.Symlink(target, filepath.Join(links, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := (Dirs{Owner: logsIn(t, logs), Links: links}).RemoveDeadLinks(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(links, "*"))
	if want := []string{filepath.Join(links, "alive.log"), filepath.Join(links, "foreign.log")}; err != nil || !slices.Equal(left, want) {
		t.Errorf("got %v, %v, want %v", left, err, want)
	}
	if err := (Dirs{Owner: logsIn(t, logs), Links: filepath.Join(links, "not")}).RemoveDeadLinks(); err != nil {
		t.Errorf("no links at all are fine: %v", err)
	}
}

func TestARoundLooksAtSoManyDirectories(t *testing.T) {
	// given a log directory with more directories of pods than one listing takes, and foreign ones, which stay
	dir := t.TempDir()
	for _, name := range []string{"a_b_1", "a_b_2", "a_b_3", "a_b_4", "w", "x", "y", "z"} {
		mkdir(t, filepath.Join(dir, name))
	}
	// then some are found, and the rest when these are gone
	for left := 4; left > 0; {
		found, err := subdirectories(dir, 3, func(name string) bool { return podOfLogs(name) != nil })
		if err != nil || len(found) != min(left, 3) {
			t.Fatalf("%v, %v", found, err)
		}
		for _, name := range found {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		left -= len(found)
	}
}
