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

// signalling are the functions that signal a process by its pid, or open a pidfd. Only package proc
// may use them: it makes sure that the pid was not reused.
var signalling = map[string][]string{
	"syscall":               {"Kill", "Tgkill", "SYS_KILL", "SYS_TKILL", "SYS_TGKILL"},
	"golang.org/x/sys/unix": {"Kill", "Tgkill", "PidfdOpen", "PidfdSendSignal", "SYS_KILL", "SYS_TKILL", "SYS_TGKILL"},
	"os":                    {"FindProcess", "StartProcess"},
}

func TestOnlyProcSignalsProcesses(t *testing.T) {
	for _, root := range []string{"..", "../../cmd"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() || path == "../host/proc" {
				return err
			}
			for _, file := range sources(t, path) {
				parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
				if err != nil {
					return err
				}
				for _, use := range signalUses(parsed) {
					t.Errorf("%s uses %s: signals are sent by package proc", file, use)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestSignalsAreNoticed(t *testing.T) {
	for source, want := range map[string][]string{
		`import "syscall"; func f() { syscall.Kill(1, 9) }`:                                  {"syscall.Kill"},
		`import k "syscall"; func f() { k.Kill(1, 9) }`:                                      {"syscall.Kill"},
		`import . "syscall"; func f() { Kill(1, 9) }`:                                        {"syscall without its name"},
		`import "golang.org/x/sys/unix"; var f = unix.PidfdSendSignal`:                       {"golang.org/x/sys/unix.PidfdSendSignal"},
		`import "os"; func f() { p, _ := os.FindProcess(1); p.Kill() }`:                      {"os.FindProcess"},
		`import "os/exec"; func f(c *exec.Cmd) { c.Process.Kill() }`:                         {"the Process of a command"},
		`import "os/exec"; func f(c *exec.Cmd) { p := c.Process; p.Signal(nil) }`:            {"the Process of a command"},
		`import "os/exec"; func f(c interface{ Process() int }) { c.Process() }`:             nil,
		`import "syscall"; var x syscall.Signal = syscall.SIGKILL`:                           nil,
		`import "example.com/unix"; func f() { unix.Kill(); var c struct{Process int}; _=c}`: nil,
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := signalUses(parsed); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", source, got, want)
		}
	}
}

// signalUses returns the functions of signalling that a file uses.
func signalUses(file *ast.File) []string {
	var out []string
	names := map[string]string{} // of the packages, in this file
	startsCommands := false
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		startsCommands = startsCommands || path == "os/exec"
		if _, listed := signalling[path]; !listed {
			continue
		}
		name := path[strings.LastIndexByte(path, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			out = append(out, path+" without its name")
		}
		names[name] = path
	}
	called := map[ast.Expr]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			called[n.Fun] = true
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(signalling[names[x.Name]], n.Sel.Name) {
				out = append(out, names[x.Name]+"."+n.Sel.Name)
			}
			// It has Kill and Signal, and the pid.
			if startsCommands && n.Sel.Name == "Process" && !called[n] {
				out = append(out, "the Process of a command")
			}
		}
		return true
	})
	return out
}
