package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// stateFiles are the files that read state of the agent, by what a state file costs that another
// version of berth wrote, or the disk damaged.
//
// Load sets the file aside, logs what is lost, and lets the agent go on with the entries that
// can be read. ReadRecord reads a file about one pod, volume, image or root, which fails alone and stays
// as it is. Read is for readers that refuse.
var stateFiles = map[string]string{
	"internal/intake/objects/bind_file.go": "Load: claims that can't be read get a volume as if they were new",
	"internal/intake/source/lastgood.go":   "Load: objects that can't be read are not known until their manifest is read",
	"internal/pods/ephemeral/ephemeral.go": "Load: ephemeral containers that can't be read are stopped",
	"internal/pods/probe/state.go":         "Load: containers that can't be read are not ready until they are probed",
	"internal/runtime/bundle/importer.go":  "Load: archives that can't be read are imported again. Read: image GC refuses, since it would remove their images",
	"internal/runtime/imagegc/memory.go":   "Load: images that can't be read count as new",

	"internal/core/execute/idfile.go":      "ReadRecord of one pod",
	"internal/host/roots/ports.go":         "ReadRecord of one root, whose ports count as free",
	"internal/host/roots/registry.go":      "ReadRecord of one root, which has no claim without it",
	"internal/pods/csi/record.go":          "ReadRecord of one volume; another record of it may be left",
	"internal/pods/userns/userns.go":       "ReadRecord of one pod. No other pod gets user ids until it is gone: it may have any",
	"internal/pods/volume/holders.go":      "ReadRecord of one volume, see record.go",
	"internal/pods/volume/record.go":       "ReadRecord of one volume, which is set up again",
	"internal/runtime/bundle/launch.go":    "ReadRecord of one process, which is found without it",
	"internal/runtime/image/recordfile.go": "ReadRecord of one image",

	"internal/config/saved.go": "neither: a field that can't be read has its default, and a file that is no JSON is refused, since 'berth down' might leave pods behind",
}

// decodesJSON are the files, or folders, that decode JSON on their own, by what it is. State that
// damage would make useless, or that is decoded in small parts, is among them.
var decodesJSON = map[string]string{
	"internal/api/":                           "requests and answers",
	"internal/cluster/node/patch.go":          "an object of the agent, in memory",
	"internal/config/kubelet/tree.go":         "a configuration, of which any mistake is an error",
	"internal/core/status/writer_patch.go":    "an object of the agent, in memory",
	"internal/intake/manifest/":               "manifests, each of which is refused alone",
	"internal/intake/source/lastgood.go":      "a state file, object by object and up to the first syntax error: called by statefile.Load",
	"internal/lib/salvage/salvage.go":         "entries of state files",
	"internal/lib/secret/secret.go":           "a setting of the administrator",
	"internal/lib/statefile/load.go":          "records",
	"internal/pods/csi/reporter.go":           "an annotation of the Node",
	"internal/runtime/bundle/archive.go":      "an archive of images, which is of no use if it is damaged",
	"internal/runtime/bundle/progress.go":     "a manifest of one image",
	"internal/runtime/credential/provider.go": "the answer of a program",
	"internal/runtime/cri/":                   "what the runtime says of itself",
	"internal/runtime/keyring/parse.go":       "credentials of the administrator",
	"internal/telemetry/event/store.go":       "lines of the journal of events, each of which is left out if it is damaged, as the last one is after a crash",
}

var (
	readsState = regexp.MustCompile(`\bstatefile\.(Load|Read|ReadRecord|IsDamaged)\b|\bsalvage\.`)
	decodes    = regexp.MustCompile(`\bjson\.(Unmarshal|NewDecoder)\(`)
)

func TestStateIsReadInOneWay(t *testing.T) {
	for _, check := range []struct {
		what, advice string
		pattern      *regexp.Regexp
		table        map[string]string
	}{
		{"reads state", "add it to stateFiles, with what a damaged file costs", readsState, stateFiles},
		{"decodes JSON", "if it is state, use package statefile; else add it to decodesJSON", decodes, decodesJSON},
	} {
		used := map[string]bool{}
		for pkg := range packages(t) {
			for _, file := range sources(t, filepath.Join("..", pkg)) {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if !check.pattern.Match(text) {
					continue
				}
				name := filepath.ToSlash(filepath.Join("internal", "arch", file))
				key := name
				for folder := range check.table {
					if strings.HasSuffix(folder, "/") && strings.HasPrefix(name, folder) {
						key = folder
					}
				}
				used[key] = true
				if check.table[key] == "" {
					t.Errorf("%s %s: %s", name, check.what, check.advice)
				}
			}
		}
		for key := range check.table {
			if !used[key] {
				t.Errorf("nothing in %s %s: remove the line", key, check.what)
			}
		}
	}
}
