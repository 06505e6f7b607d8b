// Package arch checks the shape of the house: who may import whom, and which
// packages stay pure. Change the tables when the design changes, and say why in
// docs/adr.
package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayImport lists, for every package below internal/, the packages of berth that
// it may import. A pod travels one way; so do imports.
var mayImport = map[string][]string{
	// The words, and what everybody stands on.
	"pod":        {},
	"run":        {},
	"queue":      {},
	"atomicfile": {},
	"plain":      {},
	"progress":   {},
	"podfile":    {},
	"proc":       {}, // the only package that sends signals: see signals_test.go
	"salvage":    {},
	"trouble":    {},
	"secret":     {},
	"statefile":  {"atomicfile", "trouble"},

	// Where pods come from.
	"manifest":        {"pod", "manifest/strict"},
	"manifest/strict": {},
	"config":          {"manifest/strict", "plan", "pod", "roots", "secret", "shutdown"},
	"source":          {"atomicfile", "manifest", "pod", "run", "secret", "trouble"},
	"mirror":          {"pod", "trouble"}, // the other way: what the API server is shown of static pods

	// The road: decisions.
	"merge":   {"pod"},
	"desired": {"pod"},
	"admit":   {"pod"},
	"fields":  {"pod"},
	"plan":    {"pod"},
	"render":  {"fields", "plan", "pod"},
	"status":  {"pod", "run", "trouble"}, // the writer has goroutines; what it writes is decided purely

	// The road: what moves a pod along.
	"agent":      {"admit", "desired", "merge", "pod", "queue", "run", "status", "worker"},
	"worker":     {"pod", "run"},
	"execute":    {"ask", "atomicfile", "event", "fields", "image", "plan", "pod", "podfile", "queue", "render", "status", "volume", "waterfall"},
	"image":      {"atomicfile", "keyring", "pod", "progress", "run"},
	"observe":    {"cri", "pod", "run"},
	"cri":        {"keyring", "pod"},
	"gc":         {"pod", "podfile", "roots"},
	"ask":        {"plain", "pod"}, // hooks and probes send requests to containers in the same way
	"hook":       {"ask", "plain", "pod"},
	"probe":      {"ask", "atomicfile", "plain", "pod", "queue", "run", "salvage"},
	"cgroup":     {"proc", "render", "roots"},
	"userns":     {"atomicfile", "pod", "podfile", "render"},
	"keyring":    {},
	"credential": {"keyring", "pod", "proc"},
	"imagegc":    {"atomicfile", "salvage", "statefile"},
	"refs":       {"atomicfile", "pod", "run", "salvage", "statefile", "trouble"},
	"plugins":    {"podfile", "run"},
	"csi":        {"atomicfile", "pod", "podfile", "statefile"},
	"volume":     {"atomicfile", "csi", "fields", "pod", "podfile", "proc", "render"}, // a volume of a driver is a volume like others

	// This machine in a cluster.
	"kubeapi":  {},
	"cert":     {"atomicfile", "kubeapi", "run", "statefile"},
	"node":     {"run", "trouble"},
	"shutdown": {"pod", "run"},

	// Beside the road.
	"bundle":          {"atomicfile", "cgroup", "ociarchive", "proc", "roots", "run", "salvage", "statefile"},
	"roots":           {"atomicfile"},
	"roots/rootstest": {"roots"},
	"ociarchive":      {},
	"crilog":          {"podfile", "run"},
	"event":           {"plain", "pod", "statefile", "trouble"},
	"server":          {"crilog", "find", "pod", "progress", "run", "server/api"},
	"server/api":      {"pod", "progress"},
	"client":          {"find", "pod", "progress", "server/api"},
	"client/nodetest": {},
	"ephemeral":       {"atomicfile", "pod", "salvage", "statefile"},
	"table":           {},
	"nodeapi":         {"crilog", "find", "pod", "run"},
	"find":            {"pod"},
	"inventory":       {"pod", "server/api"},
	"review":          {"admit", "manifest", "merge", "plan", "pod"},
	"doctor":          {},

	// What is counted and measured.
	"waterfall":       {"pod"},
	"stats":           {"cgroup", "cri", "pod", "podfile", "run"},
	"metrics":         {"cgroup", "pod", "stats"},
	"trace":           {},
	"trace/tracetest": {},
	"proc/proctest":   {"proc"},
	"measure":         {"metrics", "pod", "probe", "server/api", "trace", "waterfall", "worker"},

	// For tests.
	"fake": {"ask", "cri", "keyring", "pod", "render"},
	"arch": {},
}

// pure packages decide. They read no clock, no file and no network.
var pure = []string{"pod", "manifest", "manifest/strict", "merge", "admit", "fields", "find", "keyring", "plain", "plan", "progress", "render", "secret", "inventory", "review", "trouble"}

// impure are the imports that a pure package can't have.
var impure = []string{"os", "os/exec", "net", "net/http", "context", "syscall", "google.golang.org/grpc", "golang.org/x/sys/unix"}

// only lists who may import what the rest of the house must not see.
var only = map[string][]string{
	"k8s.io/cri-api/pkg/apis/runtime/v1": {"cri", "render"},
	"k8s.io/kubernetes":                  {},
	"github.com/spf13/cobra":             {},
}

func TestImportsPointDownTheRoad(t *testing.T) {
	for pkg, files := range packages(t) {
		allowed, listed := mayImport[pkg]
		if !listed {
			t.Errorf("package %s is not in the table: add it, with what it may import", pkg)
			continue
		}
		for file, imports := range files {
			for _, path := range imports {
				ours, isOurs := strings.CutPrefix(path, "berth/internal/")
				if isOurs && !slices.Contains(allowed, ours) {
					t.Errorf("%s imports %s, and %s may not", file, ours, pkg)
				}
				for forbidden, by := range only {
					if (path == forbidden || strings.HasPrefix(path, forbidden+"/")) && !slices.Contains(by, pkg) {
						t.Errorf("%s imports %s, which only %v may", file, path, by)
					}
				}
			}
		}
	}
}

// writeThemselves are the packages that replace files by themselves, and why a failed write there
// is the error of one pod, or is tried again. All others leave it to statefile: a full
// disk keeps no agent from starting and from making room.
var writeThemselves = map[string]string{
	"statefile": "it is how the others write",
	"bundle":    "the configuration of containerd, which is tried again until it can be written",
	"cert":      "a new certificate is asked for again if it can't be kept",
	"csi":       "a volume is on record before its driver is called; else its pod waits",
	"execute":   "files that containers see; else their pod waits",
	"image":     "a pull is on record before it begins; else it fails",
	"probe":     "tried again every ten seconds",
	"refs":      "a copy of a damaged file, for whoever looks into it",
	"roots":     "below /run; a claim that can't be written is a warning",
	"source":    "tried again at each look at the manifests",
	"userns":    "the ids of a pod are on record before it has them; else it waits",
	"volume":    "files that containers see; else their pod waits",
}

func TestStateIsWrittenByTheKeeper(t *testing.T) {
	writes := map[string]bool{}
	for pkg, files := range packages(t) {
		for file, imports := range files {
			if !slices.Contains(imports, "berth/internal/atomicfile") {
				continue
			}
			writes[pkg] = true
			if writeThemselves[pkg] == "" {
				t.Errorf("%s replaces files by itself: leave that to statefile, or say in the table why a full disk does no harm there", file)
			}
		}
	}
	for pkg := range writeThemselves {
		if !writes[pkg] {
			t.Errorf("package %s replaces no files: is the table out of date?", pkg)
		}
	}
}

func TestPurePackagesStayPure(t *testing.T) {
	all := packages(t)
	for _, pkg := range pure {
		if len(all[pkg]) == 0 {
			t.Errorf("pure package %s has no files: is the table out of date?", pkg)
		}
		for file, imports := range all[pkg] {
			for _, path := range imports {
				if slices.Contains(impure, path) {
					t.Errorf("%s imports %s: %s is pure", file, path, pkg)
				}
			}
		}
	}
}

func TestPurePackagesReadNoClock(t *testing.T) {
	for _, pkg := range pure {
		for _, file := range sources(t, filepath.Join("..", pkg)) {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range clockCalls(parsed) {
				t.Errorf("%s reads the clock by time.%s: time is an argument in pure code", file, call)
			}
		}
	}
}

// packages returns the imports of every file that is not a test, by package.
func packages(t *testing.T) map[string]map[string][]string {
	t.Helper()
	out := map[string]map[string][]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() == "testdata" {
			return err
		}
		pkg, err := filepath.Rel("..", path)
		if err != nil {
			return err
		}
		for _, file := range sources(t, path) {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			if out[pkg] == nil {
				out[pkg] = map[string][]string{}
			}
			for _, spec := range parsed.Imports {
				name, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					return err
				}
				out[pkg][file] = append(out[pkg][file], name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sources(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
}

// Who writes to stderr by himself waits until somebody reads it. The log never waits.
func TestNobodyWritesToStderr(t *testing.T) {
	for pkg := range packages(t) {
		for _, file := range sources(t, filepath.Join("..", pkg)) {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				from, ok := s.X.(*ast.Ident)
				if ok && (from.Name == "os" && (s.Sel.Name == "Stderr" || s.Sel.Name == "Stdout") || from.Name == "fmt" && strings.HasPrefix(s.Sel.Name, "Print")) {
					t.Errorf("%s uses %s.%s: log it, or take a writer", file, from.Name, s.Sel.Name)
				}
				return true
			})
		}
	}
}
