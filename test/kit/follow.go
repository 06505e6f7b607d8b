package kit

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// A volume is promised to show a change within a second.
const (
	promised  = time.Second
	changes   = 5
	patience  = 10 * promised        // for a single change
	lookEvery = 2 * time.Millisecond // so that looking takes no time worth mentioning
)

// MustFollow changes something several times by set, and fails the test unless each of
// the files holds the new value within a second of set's return. Since the machine may
// be busy at one moment, half of the changes have to keep that. It returns the value
// that was set last. The files are those of volumes, below the root of the agent.
func MustFollow(t *testing.T, what string, set func(value string), files ...string) (last string) {
	t.Helper()
	took := make([][]time.Duration, len(files))
	for i := range changes {
		last = fmt.Sprintf("%s-%d", what, i)
		set(last)
		changed := time.Now()
		for f, file := range files {
			awaitContent(t, file, last)
			took[f] = append(took[f], time.Since(changed).Round(100*time.Microsecond))
		}
	}
	for f, file := range files {
		slices.Sort(took[f])
		_, name, _ := strings.Cut(file, "/volumes/")
		t.Logf("changes of the %s were in %s after %v", what, name, took[f])
		if took[f][changes/2] > promised {
			t.Errorf("changes of the %s are seen too late in %s", what, name)
		}
	}
	return last
}

func awaitContent(t *testing.T, file, want string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		got, err := os.ReadFile(file)
		if err == nil && string(got) == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s holds %q (%v), not %q", file, got, err, want)
		}
		time.Sleep(lookEvery)
	}
}
