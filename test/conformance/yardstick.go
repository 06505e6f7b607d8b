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

// describeRun says with what, on what and when the yardstick is recorded.
func describeRun(bin string, now time.Time) (string, error) {
	var parts []string
	for _, command := range [][]string{
		{filepath.Join(bin, "conformance/upstream/kubelet"), "--version"},
		{filepath.Join(bin, "libexec/containerd"), "--version"},
		{"uname", "--kernel-release"},
	} {
		text, err := exec.Command(command[0], command[1:]...).Output()
		if err != nil {
			return "", fmt.Errorf("%s: %w", command[0], err)
		}
		parts = append(parts, strings.TrimSpace(string(text)))
	}
	kernel := strings.SplitN(parts[2], ".", 3)
	parts[2] = "Linux " + strings.Join(kernel[:min(2, len(kernel))], ".")
	return strings.Join(append(parts, "cgroup v1", now.UTC().Format(time.DateOnly)), ", "), nil
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
