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

// groups are the folders of internal/, from the ground up, each with the groups that its packages
// may import besides their own. A pod travels one way; so do imports.
var groups = map[string][]string{
	"lib":       {},
	"host":      {"lib"},
	"runtime":   {"host", "lib"},
	"pods":      {"host", "lib", "runtime"},
	"telemetry": {"host", "lib", "pods", "runtime"},
	"intake":    {"lib"},
	"core":      {"host", "intake", "lib", "pods", "runtime", "telemetry"},
	"cluster":   {"host", "lib"},
	"api":       {"lib", "runtime"},
	"config":    {"host", "lib"},
	"app":       {"api", "cluster", "config", "core", "host", "intake", "lib", "pods", "runtime", "telemetry"},
	"cli":       {"api", "app", "config", "host", "lib"},
	"arch":      {},
}

// exceptions are single imports that the groups do not allow, each with its reason.
var exceptions = map[string]string{
	"runtime/render imports core/plan":      "an action of a plan is what it turns into a CRI message",
	"runtime/fake imports pods/handler":     "a fake container answers the requests of hooks and probes",
	"telemetry/measure imports core/worker": "it counts the phases of a pod's life",
	"telemetry/measure imports api":         "it answers the local API with waterfalls",
	"cli/manifests imports core/review":     "'berth validate' and 'berth diff' judge manifests without an agent",
	"cli/manifests imports intake/source":   "'berth validate' takes the files of a folder that the agent would take",
	"config imports core/plan":              "the configuration sets the pauses of a crash loop",
	"config imports cluster/shutdown":       "the configuration sets the periods of a shutdown",
	"config imports intake/manifest/strict": "a configuration file is decoded as strictly as a manifest",

	"config/kubelet imports intake/manifest/strict": "so are the files of a kubelet, which forgives more",
}

// pure packages decide. They read no clock, no file and no network.
var pure = []string{
	"lib/pod", "lib/backoff", "lib/downward", "lib/logonce", "lib/printable", "lib/progress", "lib/secret", "lib/volumekind", "lib/cgroupname",
	"intake/manifest", "intake/manifest/strict", "intake/merge",
	"core/admit", "core/plan", "core/review", "runtime/keyring", "runtime/render", "api/find", "api/inventory",
}

// impure are the imports that a pure package can't have.
var impure = []string{"os", "os/exec", "net", "net/http", "context", "syscall", "google.golang.org/grpc", "golang.org/x/sys/unix"}

// only lists the packages, or groups, that may import a module which the rest of the house must not see.
var only = map[string][]string{
	"k8s.io/cri-api/pkg/apis/runtime/v1": {"runtime/cri", "runtime/render"},
	"k8s.io/kubernetes":                  {},
	"github.com/spf13/cobra":             {"cli"},
	"github.com/moby/sys/mountinfo":      {"host/mounts"},
}

func TestImportsPointDownTheRoad(t *testing.T) {
	used := map[string]bool{}
	for pkg, files := range packages(t) {
		allowed, listed := groups[groupOf(pkg)]
		if !listed {
			t.Errorf("package %s is in no group: move it into one, or add the group to the table, with what it may import", pkg)
			continue
		}
		for file, imports := range files {
			for _, path := range imports {
				if ours, isOurs := strings.CutPrefix(path, "berth/internal/"); isOurs && groupOf(ours) != groupOf(pkg) && !slices.Contains(allowed, groupOf(ours)) {
					exception := pkg + " imports " + ours
					used[exception] = true
					if exceptions[exception] == "" {
						t.Errorf("%s: %s, and %s may only import %v", file, exception, groupOf(pkg), allowed)
					}
				}
				for forbidden, by := range only {
					if (path == forbidden || strings.HasPrefix(path, forbidden+"/")) && !slices.Contains(by, pkg) && !slices.Contains(by, groupOf(pkg)) {
						t.Errorf("%s imports %s, which only %v may", file, path, by)
					}
				}
			}
		}
	}
	for exception := range exceptions {
		if !used[exception] {
			t.Errorf("%q is an exception that is not needed: remove the line", exception)
		}
	}
}

// groupOf returns the folder of internal/ that a package is in.
func groupOf(pkg string) string {
	group, _, _ := strings.Cut(pkg, "/")
	return group
}

// writeThemselves are the packages that replace files by themselves, and why a failed write there
// is the error of one pod, or is tried again. All others leave it to statefile: a full
// disk keeps no agent from starting and from making room.
var writeThemselves = map[string]string{
	"config":         "settings for 'berth down', which statefile tries again to write",
	"lib/statefile":  "it is how the others write",
	"runtime/bundle": "the configuration of containerd, which is tried again until it can be written",
	"cluster/cert":   "a new certificate is asked for again if it can't be kept",
	"pods/csi":       "a volume is on record before its driver is called; else its pod waits",
	"core/execute":   "files that containers see; else their pod waits",
	"runtime/image":  "a pull is on record before it begins; else it fails",
	"pods/probe":     "tried again every ten seconds",
	"host/roots":     "below /run; a claim that can't be written is a warning",
	"intake/source":  "tried again at each look at the manifests",
	"pods/userns":    "the ids of a pod are on record before it has them; else it waits",
	"pods/volume":    "files that containers see; else their pod waits",
}

func TestStateIsWrittenByTheKeeper(t *testing.T) {
	writes := map[string]bool{}
	for pkg, files := range packages(t) {
		for file, imports := range files {
			if !slices.Contains(imports, "berth/internal/lib/atomicfile") {
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

// A direct write to stderr blocks until the reader reads it. The log never blocks.
func TestNoPackageWritesToStderr(t *testing.T) {
	for pkg := range packages(t) {
		if pkg == "lib/leaktest" {
			continue // it prints the failure of a test
		}
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
