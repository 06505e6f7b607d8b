//go:build real

package kit

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

// ActivityLogs are the logs of containers that record their own starts, signals and ends (see
// test/workload/activity.go). They are held open, so they can be read to their ends after the pod has gone.
type ActivityLogs struct {
	n     *Node
	files []*os.File
}

// LogLinks are the links to the logs of a pod's containers, by name.
func (n *Node) LogLinks(p v1.Pod) []string {
	n.T.Helper()
	found, err := filepath.Glob(filepath.Join(n.Root, "log", "containers", p.Name+"_"+p.Namespace+"_*.log"))
	if err != nil {
		n.T.Fatal(err)
	}
	return found
}

// OpenActivityLogs opens the logs of all containers that the pod has now.
func (n *Node) OpenActivityLogs(p v1.Pod) *ActivityLogs {
	n.T.Helper()
	links := n.LogLinks(p)
	if len(links) == 0 {
		n.T.Fatalf("pod %s has no logs", p.Name)
	}
	return n.OpenActivityLogFiles(links...)
}

// OpenActivityLogFiles opens the logs of containers by their paths.
func (n *Node) OpenActivityLogFiles(paths ...string) *ActivityLogs {
	n.T.Helper()
	d := &ActivityLogs{n: n}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			n.T.Fatal(err)
		}
		n.T.Cleanup(func() { _ = file.Close() })
		d.files = append(d.files, file)
	}
	return d
}

// activity is one line that a container wrote of itself.
type activity struct {
	who, what string
	at        time.Time
}

// Read returns all activities until now, in the order of time.
func (d *ActivityLogs) Read() Activities {
	d.n.T.Helper()
	out := Activities{n: d.n}
	for _, file := range d.files {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			d.n.T.Fatal(err)
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			// The runtime puts time, stream and a tag before each line.
			fields := strings.Fields(lines.Text())
			if len(fields) != 6 {
				continue
			}
			at, err := strconv.ParseInt(fields[5], 10, 64)
			if err != nil {
				d.n.T.Fatalf("%s: %v", lines.Text(), err)
			}
			out.all = append(out.all, activity{fields[3], fields[4], time.Unix(0, at)})
		}
	}
	slices.SortFunc(out.all, func(a, b activity) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	return out
}

// WaitInOrder reads until things were written, one after the other. What a container writes
// is in its log a moment after the runtime reports that it runs, or that it ended.
func (d *ActivityLogs) WaitInOrder(things ...string) Activities {
	d.n.T.Helper()
	var e Activities
	d.n.Wait(fmt.Sprintf("%v, in that order", things), 10*time.Second, func() string {
		if e = d.Read(); e.inOrder(things) {
			return ""
		}
		return "this:\n" + e.String()
	})
	return e
}

// Activities are the recorded activities of a pod's containers, in the order of time.
type Activities struct {
	n   *Node
	all []activity
}

func (e Activities) String() string {
	var b strings.Builder
	for _, entry := range e.all {
		if entry.what != "alive" {
			b.WriteString(entry.at.Format("05.000 ") + entry.who + " " + entry.what + "\n")
		}
	}
	return b.String()
}

// Find returns the last time at which a container wrote a word.
func (e Activities) Find(who, what string) (time.Time, bool) {
	for _, entry := range slices.Backward(e.all) {
		if entry.who == who && entry.what == what {
			return entry.at, true
		}
	}
	return time.Time{}, false
}

// At is Find for a word that must have been written.
func (e Activities) At(who, what string) time.Time {
	e.n.T.Helper()
	at, ok := e.Find(who, what)
	if !ok {
		e.n.T.Fatalf("%s did not write %q:\n%s", who, what, e)
	}
	return at
}

// inOrder reports whether things happened one after the other.
func (e Activities) inOrder(things []string) bool {
	var before time.Time
	for _, thing := range things {
		who, what, _ := strings.Cut(thing, " ")
		at, found := e.Find(who, what)
		if !found || at.Before(before) {
			return false
		}
		before = at
	}
	return true
}

// MustBeInOrder wants things to have happened one after the other. Each is
// written as "who what".
func (e Activities) MustBeInOrder(things ...string) {
	e.n.T.Helper()
	var before time.Time
	for _, thing := range things {
		who, what, _ := strings.Cut(thing, " ")
		at := e.At(who, what)
		if at.Before(before) {
			e.n.T.Errorf("too early: %s, of %v\n%s", thing, things, e)
		}
		before = at
	}
}
