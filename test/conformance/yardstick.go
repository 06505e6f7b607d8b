package main

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// yardstick is how specs ended with upstream's kubelet on a machine like this one, by their texts. In its file,
// each line has a state and a text; lines with a # say when it was made, and of what.
type yardstick struct {
	comments []string
	states   map[string]state
}

// readYardstick reads the file. One that does not exist is empty.
func readYardstick(file string) (yardstick, error) {
	y := yardstick{states: map[string]state{}}
	lines, err := readLines(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return y, err
	}
	for _, line := range lines {
		how, name, ok := strings.Cut(line, " ")
		switch {
		case how == "#":
			y.comments = append(y.comments, line)
		case !ok:
			return y, fmt.Errorf("read %s: line %q has no state and text", file, line)
		default:
			y.states[name] = state(how)
		}
	}
	return y, nil
}

// record returns the yardstick with the results of one more run, and with a comment on it. Specs that did not run
// keep their results.
func (y yardstick) record(ran []spec, comment string) yardstick {
	states := maps.Clone(y.states)
	for _, s := range ran {
		states[s.name] = s.state
	}
	return yardstick{comments: []string{"# " + comment}, states: states}
}

// describeRun says with what, on what machine and when the yardstick is recorded.
func describeRun(bin, machine string, now time.Time) (string, error) {
	var parts []string
	for _, program := range []string{"conformance/upstream/kubelet", "libexec/containerd"} {
		text, err := exec.Command(filepath.Join(bin, program), "--version").Output()
		if err != nil {
			return "", fmt.Errorf("%s: %w", program, err)
		}
		parts = append(parts, strings.TrimSpace(string(text)))
	}
	return strings.Join(append(parts, machine, now.UTC().Format(time.DateOnly)), ", "), nil
}

// describeHost describes machines that are made of namespaces.
func describeHost(string) (string, error) {
	return describeKernel("/proc/sys/kernel/osrelease", "cgroup v1")
}

// describeKernel returns a description of the kernel whose release is in a file: the first two numbers are enough.
func describeKernel(file, cgroups string) (string, error) {
	release, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	numbers := strings.SplitN(strings.TrimSpace(string(release)), ".", 3)
	return "Linux " + strings.Join(numbers[:min(2, len(numbers))], ".") + ", " + cgroups, nil
}

func (y yardstick) write(file string) error {
	lines := slices.Clone(y.comments)
	for _, name := range slices.Sorted(maps.Keys(y.states)) {
		lines = append(lines, string(y.states[name])+" "+name)
	}
	return os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// readSelection returns a regular expression that matches the specs whose texts are the lines of a file.
func readSelection(file string) (string, error) {
	lines, err := readLines(file)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, line := range lines {
		if !strings.HasPrefix(line, "#") {
			texts = append(texts, regexp.QuoteMeta(line))
		}
	}
	if len(texts) == 0 {
		return "", fmt.Errorf("%s names no spec", file)
	}
	// Ginkgo puts the name of the suite before the text.
	return " (" + strings.Join(texts, "|") + ")$", nil
}

// readLines returns the lines of a file that are not empty.
func readLines(name string) ([]string, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []string
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		if line := strings.TrimSpace(scanner.Text()); line != "" {
			lines = append(lines, line)
		}
	}
	return lines, scanner.Err()
}
