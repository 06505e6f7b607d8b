package kit

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Versions is what the reader of a volume has to say: test/workload, told to read
// versions.
type Versions struct {
	Shown       map[string]int // the newest version by object
	Reads, Seen int
	Fault       string
}

// AwaitVersions returns what a reader says once it has seen a version of all these
// objects, and fails the test if it found something wrong. The file is the one that it
// tells of it in, from the outside.
func AwaitVersions(t *testing.T, file string, version int, objects ...string) Versions {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(lookEvery) {
		var told Versions
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &told)
		}
		missing := func(object string) bool {
			shown, ok := told.Shown[object]
			return !ok || shown != version
		}
		switch {
		case told.Fault != "":
			t.Fatalf("while version %d came, the container found %s", version, told.Fault)
		case err == nil && !slices.ContainsFunc(objects, missing):
			return told
		case time.Now().After(deadline):
			t.Fatalf("version %d is not seen in the container: %s (%v)", version, text, err)
		}
	}
}

// Numbered are values for so many keys of an object, all of one version, as that reader
// expects them. They are too large to be written at once.
func Numbered(object string, keys, version int) map[string]string {
	out := map[string]string{}
	for i := range keys {
		out[fmt.Sprintf("%s-%d", object, i)] = strings.Repeat(fmt.Sprintf("%07d\n", version), 1<<10)
	}
	return out
}
