package bundle

import (
	"os"
	"strings"
	"time"
)

// stamp is the size and time of a file, by which a changed file is recognized.
type stamp struct {
	Size    int64     `json:"size"`
	ModTime time.Time `json:"modTime"`
}

func stampOf(info os.FileInfo) stamp { return stamp{Size: info.Size(), ModTime: info.ModTime()} }

func (s stamp) equal(o stamp) bool { return s.Size == o.Size && s.ModTime.Equal(o.ModTime) }

// settleTime is how long a file must stay as it is before it counts as complete.
const settleTime = time.Second

// settleTracker decides when a file is complete: when it has not changed for settleTime. A
// copy that is under way looks like a small file, but changes.
type settleTracker struct {
	seen map[string]observation
}

type observation struct {
	stamp stamp
	since time.Time
}

// remaining returns how long to wait until the file may be complete; 0 means that it is.
func (s *settleTracker) remaining(name string, now time.Time, is stamp) time.Duration {
	was, ok := s.seen[name]
	if !ok || !was.stamp.equal(is) {
		was = observation{stamp: is, since: now}
		s.seen[name] = was
	}
	// A file that was moved here may have been complete for long. A file with a time in the
	// future (clocks differ) counts from when it was first seen.
	quiet := max(now.Sub(was.since), now.Sub(is.ModTime))
	return max(settleTime-quiet, 0)
}

// archiveName returns the name of a file without the ending of an image archive.
// Hidden files are ignored: copying tools write to them first.
func archiveName(file string) (string, bool) {
	if strings.HasPrefix(file, ".") {
		return "", false
	}
	for _, ending := range []string{".tar", ".tar.gz", ".tgz"} {
		if name, ok := strings.CutSuffix(file, ending); ok && name != "" {
			return name, true
		}
	}
	return "", false
}

// localPrefix returns the name of images for which an archive gives only a tag: localhost/ and the
// name of the file, in the letters that a reference may have.
func localPrefix(name string) string {
	clean := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(name))
	clean = strings.Trim(clean, "-")
	if clean == "" {
		clean = "image"
	}
	return "localhost/" + clean
}
