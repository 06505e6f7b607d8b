package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// holders are all fields that are maps by the UID of a pod, and what removes their entries. A pod
// may live twice under one UID (a drain is undone, a file is put back), and the second life must
// not find anything of the first. A new field is added here with what removes its entries, and
// TestASecondLifeIsAWholeLife in package agent has to notice if nothing does.
var holders = map[string]string{
	// Ended by execute.forgetLife, with the life of a pod.
	"execute.memories.pods":     "forgetLife",
	"status.Store.statuses":     "forgetLife",
	"probe.Manager.pods":        "forgetLife, by Forget",
	"observe.Observer.known":    "forgetLife, by Forget",
	"waterfall.Recorder.pods":   "forgetLife, by Telemetry.Gone",
	"metrics.probeMetrics.pods": "forgetLife, by Telemetry.Gone",
	"measure.terminated.byPod":  "forgetLife, by Telemetry.Gone",
	"objects.Local.pods":        "forgetLife, by Unregister",
	"objects.API.pods":          "forgetLife, by Unregister",
	"objects.watched.pods":      "forgetLife, by Unregister",
	"objects.trustWatch.pods":   "forgetLife, by Unregister",
	"image.waiter.uid":          "forgetLife, by Release",

	// Ended by the teardown of volumes, before a stop is done.
	"volume.Manager.pods":    "Teardown",
	"volume.Manager.waiting": "Teardown",
	"volume.holders.pods":    "Teardown, with the records",
	"volume.holders.users":   "Teardown, with the records",
	"volume.guard.busy":      "when the call is over",
	"csi.Manager.waiting":    "Teardown, by Forget",
	"csi.Manager.wanted":     "Teardown, by Forget",
	"expansion.volume.pods":  "Teardown, by Forget",

	// Stays for as long as the pod's directory does.
	"userns.Manager.pods":   "Release, after the directory was removed: a new life has the ids of the one before",
	"userns.Manager.unread": "Release",

	// The loop, and the workers.
	"worker.Pool.workers":           "removeWorker, when the pod is gone; a life that is revived is a new value",
	"agent.podStates.byUID":         "REMOVE; revived also once the new life has a status or an end",
	"agent.Agent.heldAtStart":       "REMOVE, or when the pod is gone: a new life has to be admitted",
	"agent.Agent.listed":            "taken in once, after the start",
	"agent.Agent.orphans":           "replaced by each housekeeping",
	"agent.Agent.unreadable":        "when the manifest can be read again, or the pod is gone",
	"agent.departures.names":        "when the pod is gone",
	"admit.Memo.pods":               "REMOVE; another version of a pod is read anew",
	"admit.Occupancy.pods":          "REMOVE, or when the status says that the pod has ended",
	"agent.occupancy.changed":       "before the next pod is admitted, or REMOVE",
	"agent.view.pods":               "when no source has the pod and its worker is done; put together anew whenever it may have changed",
	"agent.view.unreadable":         "replaced as a whole whenever Agent.unreadable changes",
	"agent.dueQueue.at":             "when the time has come: a look too many is harmless",
	"agent.dueQueue.line":           "with agent.dueQueue.at",
	"ephemeral.Store.pods":          "REMOVE, or when a pod is revived or found without a running container",
	"desired.index.byUID":           "REMOVE",
	"merge.podSet.byUID":            "REMOVE",
	"source.podStore.unreadDeleted": "once the reader has seen it",
	"status.Writer.pods":            "REMOVE: it is about the object at the API server, which has one life",
	"status.Writer.queue":           "when its turn has come: a look too many is harmless",
	"status.faults.kindOf":          "with status.Writer.pods",
	"shutdown.stopping.began":       "with the drain",
	"shutdown.stopping.names":       "with the drain",

	// Of one call or one reader.
	"agent.leftovers.pods":          "one search",
	"localapi.sent.pods":            "one reader",
	"merge.judge.uids":              "one snapshot",
	"metrics.Counts.UIDs":           "one page",
	"status.Store.watchers":         "with their readers",
	"source.stateFile.Digests":      "written anew with all that is good",
	"fake.Runtime.pods":             "tests",
	"fake.UserNamespaces.allocated": "tests",
	"fake.Objects.registered":       "tests",
}

func TestMapsByUIDSayWhenEntriesEnd(t *testing.T) {
	found := map[string]bool{}
	var dirs []string
	for pkg := range packages(t) {
		dirs = append(dirs, filepath.Join("..", pkg))
	}
	for _, dir := range dirs {
		for _, file := range sources(t, dir) {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range fieldsByUID(parsed) {
				found[parsed.Name.Name+"."+field] = true
			}
		}
	}
	for _, field := range slices.Sorted(maps.Keys(found)) {
		if holders[field] == "" {
			t.Errorf("%s remembers something by the UID of a pod: add it to the table, with what ends it", field)
		}
	}
	for field := range holders {
		if !found[field] {
			t.Errorf("%s is in the table, and remembers nothing by UID", field)
		}
	}
}

func TestFieldsByUIDAreFound(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
type plain struct { pods map[pod.UID]int; names map[string]int; ask func() map[pod.UID]int }
type deep struct { pods map[string]map[types.UID]int }
type key struct { uid pod.UID; name string }
type keyed struct { byKey map[key]int }
type named map[pod.UID]int
type generic struct { pods cache[pod.UID, int]; set set[pod.UID] }
`, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(slices.Values(fieldsByUID(parsed)))
	if want := []string{"deep.pods", "generic.pods", "generic.set", "key.uid", "named", "plain.pods"}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// fieldsByUID are the fields of a file's structs that are maps (or other containers) by UID, or
// the UID in a struct that is the key of such a map, as "Type.field", and the types that are such maps.
func fieldsByUID(file *ast.File) []string {
	var out []string
	structs, keys := map[string]*ast.StructType{}, map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok {
				structs[n.Name.Name] = s
			}
			if m, ok := n.Type.(*ast.MapType); ok && isUID(m.Key) {
				out = append(out, n.Name.Name)
			}
		case *ast.MapType:
			if key, ok := n.Key.(*ast.Ident); ok {
				keys[key.Name] = true
			}
		}
		return true
	})
	for name, s := range structs {
		for _, field := range s.Fields.List {
			byUID := isUID(field.Type) && keys[name]
			ast.Inspect(field.Type, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.MapType:
					byUID = byUID || isUID(n.Key)
				case *ast.IndexExpr:
					byUID = byUID || isUID(n.Index)
				case *ast.IndexListExpr:
					byUID = byUID || slices.ContainsFunc(n.Indices, isUID)
				}
				_, isFunc := n.(*ast.FuncType) // what a function returns is not remembered by the field
				return !isFunc
			})
			for _, ident := range field.Names {
				if byUID {
					out = append(out, name+"."+ident.Name)
				}
			}
		}
	}
	return out
}

func isUID(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := s.X.(*ast.Ident)
	return ok && s.Sel.Name == "UID" && (pkg.Name == "pod" || strings.HasSuffix(pkg.Name, "types"))
}
