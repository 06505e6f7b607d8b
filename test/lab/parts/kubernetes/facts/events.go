package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// eventReasons returns the reasons of events in the kubelet's source: the constants of its package events, and the
// literals and constants that are handed to an event recorder elsewhere.
func eventReasons() ([]string, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return nil, fmt.Errorf("find the source of the kubelet: %w", err)
	}
	root := strings.TrimSpace(string(dir))
	found := map[string]bool{}
	for _, part := range []string{"pkg/kubelet", "pkg/volume"} {
		err := filepath.WalkDir(filepath.Join(root, part), func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return err
			}
			return addReasons(path, found)
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// addReasons adds the reasons in the Go files of one directory.
func addReasons(dir string, found map[string]bool) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	constants := map[string]string{}
	var parsed []*ast.File
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, "_windows.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, f)
		addConstants(f, constants)
	}
	if strings.HasSuffix(dir, "pkg/kubelet/events") {
		for _, reason := range constants {
			found[reason] = true
		}
	}
	for _, f := range parsed {
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if reason := reasonOf(call, constants); reason != "" {
					found[reason] = true
				}
			}
			return true
		})
	}
	return nil
}

// addConstants adds the string constants of a file.
func addConstants(f *ast.File, to map[string]string) {
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, value := range spec.Values {
			if text := literal(value); text != "" && i < len(spec.Names) {
				to[spec.Names[i].Name] = text
			}
		}
		return true
	})
}

// recorders are the methods that record an event, and the place of the reason among their arguments.
var recorders = map[string]int{"Event": 2, "Eventf": 2, "AnnotatedEventf": 3, "recordEventFunc": 2}

// reasonOf returns the reason of a call that records an event, or "".
func reasonOf(call *ast.CallExpr, constants map[string]string) string {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		name = f.Sel.Name
	case *ast.Ident:
		name = f.Name
	}
	place, known := recorders[name]
	if !known || len(call.Args) <= place {
		return ""
	}
	if name, ok := call.Args[place].(*ast.Ident); ok {
		return constants[name.Name]
	}
	return literal(call.Args[place])
}

// literal returns the value of a string literal, or "".
func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return text
}
