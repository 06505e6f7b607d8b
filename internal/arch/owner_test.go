package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// remover is a function or method that ends or removes what may be another root's. It goes
// by its name alone, whatever its receiver or package is called where it is used.
type remover struct {
	name string
	in   string // the package whose function it is, if others have one of that name
}

// removers are used by functions that have asked a roots.Owner. Package proc, which alone sends
// signals, has a check of its own.
var removers = map[remover][]string{
	{"LinkDel", ""}:             {"internal/runtime/bundle/links.go removeLink"},
	{"Rmdir", ""}:               {"internal/pods/cgroup/cgroup.go removeDir"},
	{"KillAll", ""}:             {"internal/pods/cgroup/kill.go kill"},
	{"kill", "cgroup"}:          {"internal/pods/cgroup/pods.go remove"},
	{"remove", "cgroup"}:        {"internal/pods/cgroup/pods.go Remove", "internal/pods/cgroup/pods.go remove"},
	{"removeIfEmpty", "cgroup"}: {"internal/pods/cgroup/pods.go RemoveEmpty", "internal/pods/cgroup/pods.go removeIfEmpty"},
}

// needOwner are the functions that remove by name. A name alone is no proof of anything.
var needOwner = map[string][]string{
	"internal/runtime/bundle/links.go":    {"removeLinks"},
	"internal/runtime/bundle/rules.go":    {"removeRules"},
	"internal/runtime/bundle/mounts.go":   {"unmountAll"},
	"internal/runtime/bundle/teardown.go": {"removeCachedResults"},
}

func TestOnlyOwnersRemove(t *testing.T) {
	used := map[remover]map[string]bool{}
	for r := range removers {
		used[r] = map[string]bool{}
	}
	for _, file := range allSources(t) {
		pkg := filepath.Base(filepath.Dir(file))
		for _, f := range functions(t, file) {
			here := file + " " + f.Name.Name
			for _, name := range selected(f) {
				for r, by := range removers {
					if r.name != name || r.in != "" && r.in != pkg {
						continue
					}
					used[r][here] = true
					if !slices.Contains(by, here) {
						t.Errorf("%s uses %s: go through what asks a roots.Owner first, or add it to the table with the reason", here, name)
					}
				}
			}
		}
	}
	for r, by := range removers {
		for _, here := range by {
			if !used[r][here] {
				t.Errorf("%s is in the table, and does not use %s: is the table out of date?", here, r.name)
			}
		}
	}
	for file, names := range needOwner {
		found := map[string]bool{}
		for _, f := range functions(t, file) {
			found[f.Name.Name] = slices.ContainsFunc(f.Type.Params.List, func(p *ast.Field) bool { return dotted(p.Type) == "roots.Owner" })
		}
		for _, name := range names {
			if !found[name] {
				t.Errorf("%s in %s takes no roots.Owner, or is not there", name, file)
			}
		}
	}
}

func TestUsesOfRemoversAreFound(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
func f(p *Pods) {
	tree := p.cfg.Tree
	tree.kill("a")
	end := netlink.LinkDel
	p.trees[0].remove(x.y)
}`, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	got := selected(parsed)
	for _, name := range []string{"kill", "LinkDel", "remove"} {
		if !slices.Contains(got, name) {
			t.Errorf("%s is not among %v", name, got)
		}
	}
}

// selected returns the names that are selected of something, such as c in a.b.c.
func selected(n ast.Node) []string {
	var out []string
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			out = append(out, s.Sel.Name)
		}
		return true
	})
	return out
}

// allSources returns all files of the agent and its command line that are no tests.
func allSources(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, dir := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(at string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(at, ".go") || strings.HasSuffix(at, "_test.go") {
				return err
			}
			rel, err := filepath.Rel("../..", at)
			out = append(out, rel)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func functions(t *testing.T, file string) []*ast.FuncDecl {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var out []*ast.FuncDecl
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			out = append(out, f)
		}
	}
	return out
}

// dotted writes an expression such as a.b.c, or returns "".
func dotted(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if x := dotted(e.X); x != "" {
			return x + "." + e.Sel.Name
		}
	}
	return ""
}
