package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// removers are the calls that end or remove what may be another root's, and the functions
// that may make them: each has asked a roots.Owner. Package proc, which alone sends signals, has a
// check of its own.
var removers = map[string][]string{
	"netlink.LinkDel":          {"runtime/bundle/links.go removeLink"},
	"syscall.Rmdir":            {"pods/cgroup/cgroup.go removeDir"},
	"proc.KillAll":             {"pods/cgroup/kill.go kill"},
	"p.cfg.Tree.kill":          {"pods/cgroup/pods.go Remove"},
	"p.cfg.Tree.remove":        {"pods/cgroup/pods.go Remove"},
	"p.cfg.Tree.removeIfEmpty": {"pods/cgroup/pods.go RemoveEmpty"},
}

// needOwner are the functions that remove by name. A name alone is no proof of anything.
var needOwner = map[string][]string{
	"runtime/bundle/links.go":    {"removeLinks"},
	"runtime/bundle/rules.go":    {"removeRules"},
	"runtime/bundle/mounts.go":   {"unmountAll"},
	"runtime/bundle/teardown.go": {"removeCachedResults"},
}

func TestOnlyOwnersRemove(t *testing.T) {
	for _, file := range allSources(t) {
		for _, f := range functions(t, file) {
			here := file + " " + f.Name.Name
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				name := dotted(call.Fun)
				if by, listed := removers[name]; listed && !slices.Contains(by, here) {
					t.Errorf("%s calls %s: go through what asks a roots.Owner first, or add it to the table with the reason", here, name)
				}
				return true
			})
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

// allSources returns all files below internal/ that are no tests.
func allSources(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, files := range packages(t) {
		for file := range files {
			rel, err := filepath.Rel("..", file)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, rel)
		}
	}
	slices.Sort(out)
	return out
}

func functions(t *testing.T, file string) []*ast.FuncDecl {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", file), nil, parser.SkipObjectResolution)
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
