//go:build real

package real

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// What containers wrote of themselves (see test/workload/diary.go).

// diaries are the logs of a pod's containers. They are held open, so they can be
// read to their ends after the pod has gone.
type diaries struct {
	n     *node
	files []*os.File
}

// links are the links to the logs of a pod's containers, by name.
func (n *node) links(p v1.Pod) []string {
	n.t.Helper()
	found, err := filepath.Glob(filepath.Join(n.root, "log", "containers", p.Name+"_"+p.Namespace+"_*.log"))
	if err != nil {
		n.t.Fatal(err)
	}
	return found
}

// openDiaries opens the logs of all containers that the pod has now.
func (n *node) openDiaries(p v1.Pod) *diaries {
	n.t.Helper()
	links := n.links(p)
	if len(links) == 0 {
		n.t.Fatalf("pod %s has no logs", p.Name)
	}
	return n.openLogs(links...)
}

func (n *node) openLogs(paths ...string) *diaries {
	n.t.Helper()
	d := &diaries{n: n}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			n.t.Fatal(err)
		}
		n.t.Cleanup(func() { _ = file.Close() })
		d.files = append(d.files, file)
	}
	return d
}

// entry is one line of a diary.
type entry struct {
	who, what string
	at        time.Time
}

// read returns all entries until now, in the order of time.
func (d *diaries) read() entries {
	d.n.t.Helper()
	out := entries{n: d.n}
	for _, file := range d.files {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			d.n.t.Fatal(err)
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			// The runtime puts time, stream and a tag before each line.
			fields := strings.Fields(lines.Text())
			if len(fields) != 6 {
				continue
			}
			at, err := strconv.ParseInt(fields[5], 10, 64)
			if err != nil {
				d.n.t.Fatalf("%s: %v", lines.Text(), err)
			}
			out.all = append(out.all, entry{fields[3], fields[4], time.Unix(0, at)})
		}
	}
	slices.SortFunc(out.all, func(a, b entry) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	return out
}

// until reads until things were written, one after the other. What a container writes
// is in its log a moment after the runtime tells that it runs, or that it ended.
func (d *diaries) until(things ...string) entries {
	d.n.t.Helper()
	var e entries
	d.n.wait(fmt.Sprintf("%v, in that order", things), 10*time.Second, func() string {
		if e = d.read(); e.inOrder(things) {
			return ""
		}
		return "this:\n" + e.String()
	})
	return e
}

type entries struct {
	n   *node
	all []entry
}

func (e entries) String() string {
	var b strings.Builder
	for _, entry := range e.all {
		if entry.what != "alive" {
			b.WriteString(entry.at.Format("05.000 ") + entry.who + " " + entry.what + "\n")
		}
	}
	return b.String()
}

// find returns the last time that somebody wrote that.
func (e entries) find(who, what string) (time.Time, bool) {
	for _, entry := range slices.Backward(e.all) {
		if entry.who == who && entry.what == what {
			return entry.at, true
		}
	}
	return time.Time{}, false
}

// at is find for what must have been written.
func (e entries) at(who, what string) time.Time {
	e.n.t.Helper()
	at, ok := e.find(who, what)
	if !ok {
		e.n.t.Fatalf("%s did not write %q:\n%s", who, what, e)
	}
	return at
}

// inOrder tells whether things happened one after the other.
func (e entries) inOrder(things []string) bool {
	var before time.Time
	for _, thing := range things {
		who, what, _ := strings.Cut(thing, " ")
		at, found := e.find(who, what)
		if !found || at.Before(before) {
			return false
		}
		before = at
	}
	return true
}

// mustBeInOrder wants things to have happened one after the other. Each is
// written as "who what".
func (e entries) mustBeInOrder(things ...string) {
	e.n.t.Helper()
	var before time.Time
	for _, thing := range things {
		who, what, _ := strings.Cut(thing, " ")
		at := e.at(who, what)
		if at.Before(before) {
			e.n.t.Errorf("too early: %s, of %v\n%s", thing, things, e)
		}
		before = at
	}
}
