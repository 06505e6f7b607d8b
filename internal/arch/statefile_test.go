package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// readsState are the files that decode JSON in packages that read files, and why something in
// it that another version of berth wrote, or the disk damaged, costs no more than that. In the
// command line, which decodes many answers of servers, they are those that do both.
var readsState = map[string]string{
	"internal/runtime/bundle/archive.go":      "an archive of images, which is of no use if it is damaged",
	"internal/runtime/bundle/progress.go":     "a manifest of one image",
	"internal/api/client/client.go":           "answers of the agent",
	"internal/api/client/images.go":           "answers of the agent",
	"internal/api/client/remote.go":           "answers of a node",
	"internal/runtime/credential/provider.go": "the answer of a program",
	"internal/pods/csi/reporter.go":           "an annotation of the Node",
	"internal/telemetry/event/store.go":       "line by line",
	"internal/cluster/node/patch.go":          "an object of the agent, in memory",
	"internal/runtime/bundle/importer.go":     "entry by entry, with salvage",
	"internal/runtime/bundle/launch.go":       "it is of one process, which is found without it",
	"internal/pods/csi/record.go":             "it is of one volume",
	"internal/core/execute/idfile.go":         "it is of one pod",
	"internal/runtime/image/recordfile.go":    "it is of one image",
	"internal/runtime/imagegc/memory.go":      "entry by entry, with salvage",
	"internal/pods/probe/state.go":            "entry by entry, with salvage",
	"internal/intake/objects/bind_file.go":    "entry by entry, with salvage",
	"internal/host/roots/registry.go":         "it is of one root directory",
	"internal/host/roots/ports.go":            "it is of one root; what can't be read of it counts as free",
	"internal/intake/source/lastgood.go":      "object by object, and as far as it goes",
	"internal/pods/userns/userns.go":          "it is of one pod",
	"internal/pods/volume/record.go":          "it is of one volume",
	"internal/app/settings.go":                "field by field, with salvage",
	"internal/pods/ephemeral/ephemeral.go":    "entry by entry, with salvage",
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
		texts, reads := map[string][]byte{}, false
		for _, file := range sources(t, dir) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = text
			reads = reads || readsFile.Match(text)
		}
		for file, text := range texts {
			if !reads || !decodesJSON.Match(text) || filepath.Base(dir) == "berth" && !readsFile.Match(text) {
				continue
			}
			name := filepath.ToSlash(strings.TrimPrefix(filepath.Join("internal", "arch", file), string(filepath.Separator)))
			found[name] = true
			if readsState[name] == "" {
				t.Errorf("%s decodes JSON, and its package reads files: if it is state, read it with package salvage, and say in the table why one bad entry costs no other", name)
			}
		}
	}
	for name := range readsState {
		if !found[name] {
			t.Errorf("%s is in the table, and decodes no JSON, or its package reads no files", name)
		}
	}
}
