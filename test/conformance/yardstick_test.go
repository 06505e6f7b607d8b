package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestTheYardstickKeepsSpecsThatDidNotRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "yardstick.txt")
	y, err := readYardstick(file)
	if err != nil {
		t.Fatal(err)
	}
	first := y.record([]spec{{name: "one spec", state: passed}, {name: "another", state: failed}}, "today")
	if err := first.write(file); err != nil {
		t.Fatal(err)
	}
	y, err = readYardstick(file)
	if err != nil {
		t.Fatal(err)
	}
	y = y.record([]spec{{name: "another", state: passed}}, "today")
	if len(y.comments) != 1 || y.comments[0] != "# today" {
		t.Errorf("the comments are %q, want one on the last run", y.comments)
	}
	if y.states["one spec"] != passed || y.states["another"] != passed || len(y.states) != 2 {
		t.Errorf("the yardstick is %v, want both specs passed", y.states)
	}
}

func TestASelectionMatchesWholeTexts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "quick.txt")
	if err := os.WriteFile(file, []byte("# why\n[sig-node] Pods run (fast)\n\n[sig-node] Probes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := readSelection(file)
	if err != nil {
		t.Fatal(err)
	}
	focus := regexp.MustCompile(text)
	for spec, want := range map[string]bool{
		"Suite [sig-node] Pods run (fast)":       true,
		"Suite [sig-node] Probes":                true,
		"Suite [sig-node] Probes by HTTP":        false,
		"Suite s Pods run (fast)":                false,
		"Suite [sig-node] Pods run (fast) twice": false,
	} {
		if focus.MatchString(spec) != want {
			t.Errorf("the selection matches %q: %v, want %v", spec, !want, want)
		}
	}
}

func TestAKernelIsDescribedByTwoNumbers(t *testing.T) {
	for release, want := range map[string]string{
		"6.1.0-40-cloud-amd64\n": "Linux 6.1, cgroup v2", "6.18.5": "Linux 6.18, cgroup v2", "7": "Linux 7, cgroup v2",
	} {
		file := filepath.Join(t.TempDir(), "osrelease")
		if err := os.WriteFile(file, []byte(release), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := describeKernel(file, "cgroup v2"); err != nil || got != want {
			t.Errorf("release %q is %q, %v, want %q", release, got, err, want)
		}
	}
}
