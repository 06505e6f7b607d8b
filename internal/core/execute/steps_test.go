package execute

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// stepFile is the file of a step.
func stepFile(function string) string {
	words := regexp.MustCompile(`[A-Z]`).ReplaceAllStringFunc(function, func(s string) string { return "_" + strings.ToLower(s) })
	return "step_" + words + ".go"
}

// listedSteps returns the functions in the lists of steps.go.
func listedSteps(t *testing.T) []string {
	t.Helper()
	var out []string
	ast.Inspect(parsed(t, "steps.go"), func(n ast.Node) bool {
		if field, ok := n.(*ast.KeyValueExpr); ok {
			key, _ := field.Key.(*ast.Ident)
			if function, ok := field.Value.(*ast.Ident); ok && key != nil && key.Name == "do" {
				out = append(out, function.Name)
			}
		}
		return true
	})
	slices.Sort(out)
	return slices.Compact(out)
}

func parsed(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestEachStepHasItsFileAndCallsNoOther(t *testing.T) {
	steps := listedSteps(t)
	if len(steps) < len(syncSteps) {
		t.Fatalf("found only %q", steps)
	}
	files, err := filepath.Glob("step_*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	var want []string
	for _, step := range steps {
		want = append(want, stepFile(step))
	}
	slices.Sort(want)
	if !slices.Equal(files, want) {
		t.Errorf("the files of steps are %q, and the lists name %q", files, want)
	}
	all, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		if file == "steps.go" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		ast.Inspect(parsed(t, file), func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && slices.Contains(steps, n.Name.Name) && file != stepFile(n.Name.Name) {
					t.Errorf("step %s is in %s", n.Name.Name, file)
				}
			case *ast.CallExpr:
				if called, ok := n.Fun.(*ast.Ident); ok && slices.Contains(steps, called.Name) {
					t.Errorf("%s calls the step %s: only the lists of steps.go do", file, called.Name)
				}
			}
			return true
		})
	}
}
