package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// readsState are the files that read JSON from the disk, and why something in it that
// another version of berth wrote, or the disk damaged, costs no more than that.
var readsState = map[string]string{
	"internal/runtime/bundle/importer.go":     "entry by entry, with salvage",
	"internal/runtime/bundle/launch.go":       "it is of one process, which is found without it",
	"internal/pods/csi/record.go":          "it is of one volume",
	"internal/core/execute/idfile.go":      "it is of one pod",
	"internal/runtime/image/recordfile.go":    "it is of one image",
	"internal/runtime/imagegc/memory.go":      "entry by entry, with salvage",
	"internal/pods/probe/memory.go":        "entry by entry, with salvage",
	"internal/intake/objects/bind_file.go":      "entry by entry, with salvage",
	"internal/host/roots/registry.go":      "it is of one root directory",
	"internal/host/roots/ports.go":         "it is of one root; what can't be read of it counts as free",
	"internal/intake/source/lastgood.go":     "object by object, and as far as it goes",
	"internal/pods/userns/userns.go":       "it is of one pod",
	"internal/pods/volume/edited.go":       "it is of one volume",
	"internal/app/settings.go":             "field by field, with salvage",
	"internal/pods/ephemeral/ephemeral.go": "entry by entry, with salvage",
}

var (
	readsFile   = regexp.MustCompile(`\bos\.(ReadFile|Open|OpenFile)\(|\bpodfile\.(Read|ReadOpen|Open|OpenRegularIn|Tail)\(`)
	decodesJSON = regexp.MustCompile(`\bjson\.(Unmarshal|NewDecoder)\(|\bsalvage\.`)
)

func TestOneBadEntryOfAStateFileCostsNoOther(t *testing.T) {
	found := map[string]bool{}
	var dirs []string
	for pkg := range packages(t) {
		dirs = append(dirs, filepath.Join("..", pkg))
	}
	for _, dir := range dirs {
		for _, file := range sources(t, dir) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !readsFile.Match(text) || !decodesJSON.Match(text) {
				continue
			}
			name := filepath.ToSlash(strings.TrimPrefix(filepath.Join("internal", "arch", file), string(filepath.Separator)))
			found[name] = true
			if readsState[name] == "" {
				t.Errorf("%s reads JSON from the disk: read it with package salvage, and say in the table why one bad entry costs no other", name)
			}
		}
	}
	for name := range readsState {
		if !found[name] {
			t.Errorf("%s is in the table, and reads no JSON from the disk", name)
		}
	}
}
