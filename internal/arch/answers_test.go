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

// noAnswer lists the files that call the container runtime, the calls, and what follows from a call
// without an answer (pod.ErrNoAnswer). Such a call says nothing of a pod: no container is ended,
// counted or removed because of it. A new call is added here with its consequence.
var noAnswer = map[string]map[string]string{
	// The road of a pod.
	"internal/core/observe/observe.go":               {"Pod": "what was seen before stays, and the worker comes back"},
	"internal/core/observe/loop.go":                  {"List": "what was seen before stays, and it is listed again", "Events": "it is listed instead, and the stream opened again"},
	"internal/core/agent/firstlist.go":               {"InRuntime": "pods are Unknown until it answers"},
	"internal/core/agent/housekeeping.go":            {"InRuntime": "nothing is a leftover; next time"},
	"internal/core/execute/step_wait_for_network.go": {"Ready": "the pod waits, and the worker comes back"},
	"internal/core/execute/sandbox.go":               {"RunSandbox": "the worker comes back, and finds a sandbox or none"},
	"internal/core/execute/addresses.go":             {"Pod": "the container waits, or its postStart hook is run again, and the worker comes back"},
	"internal/core/execute/container.go": {
		"CreateContainer": "the worker comes back, and finds a container that was not started, or none",
		"StartContainer":  "the worker comes back, and finds it running or not; its postStart hook is due",
	},
	"internal/core/execute/poststart.go":              {"Run": "the hook is run again"},
	"internal/core/execute/prestop.go":                {"Run": "the stop goes on, and the hook is run again with the next attempt, if there is one"},
	"internal/core/execute/stoporder.go":              {"StopContainer": "the worker comes back; after a failed postStart hook, the container counts as one to be stopped"},
	"internal/core/execute/plannedstops.go":           {"RemoveContainer": "the worker comes back", "StopSandbox": "the worker comes back"},
	"internal/core/execute/step_stop_sandboxes.go":    {"StopSandbox": "the worker comes back"},
	"internal/core/execute/step_remove_dead.go":       {"RemoveContainer": "the worker comes back", "RemoveSandbox": "the worker comes back"},
	"internal/core/execute/step_remove_containers.go": {"RemoveContainer": "the worker comes back"},
	"internal/core/execute/step_remove_sandboxes.go":  {"RemoveSandbox": "the worker comes back"},
	"internal/pods/probe/check.go":                    {"Exec": "Unknown, which changes nothing"},
	"internal/app/core.go":                            {"ImageUser": "the container waits, and the worker comes back", "Exec": "see execute/prestop.go and execute/poststart.go"},
	"internal/app/syncloop.go":                        {"Exec": "see probe/check.go"},
	"internal/pods/cgroup/driver.go":                  {"CgroupDriver": "pods wait until it answers"},
	"internal/app/cgroups.go":                         {"ImageRef": "a pull that was cut off is settled later, and pods wait for that"},

	// Images.
	"internal/runtime/image/image.go":   {"ImageRef": "the container waits, and is looked at again"},
	"internal/runtime/image/pull.go":    {"PullImage": "it is pulled again after a pause", "ImageRef": "it is pulled again after a pause"},
	"internal/runtime/image/waiters.go": {"ImageRef": "the error is for the one who loaded it"},
	"internal/app/images.go": {
		"Images": "nothing is collected", "ListAll": "nothing is collected", "ImageDir": "nothing is collected",
		"RemoveImage": "it is tried in the next round", "ImageSize": "a size that is not known is not measured",
	},

	// The node, and users.
	"internal/api/imagestore/imagestore.go": {"RemoveImage": "the error is for the user", "ImageRef": "the error is for the user"},
	"internal/runtime/features/features.go": {"Labels": "pods wait until it answers", "Version": "pods wait until it answers", "Info": "pods wait until it answers", "List": "see agent/firstlist.go"},
	"internal/app/cluster.go":               {"ImageDir": "the pressure on the disk of images is measured when it answers", "Version": "the node shows what it showed", "Info": "the node is not ready after a while", "Images": "the node shows what it showed", "Changes": "it only listens"},
	"internal/app/inventory.go":             {"Images": "the error is for the user"},
	"internal/runtime/features/check.go":    {"Info": "the runtime is not up yet", "Ready": "the runtime is not up yet", "Version": "our own is replaced after minutes of it", "ImageRef": "it is asked again"},
	"internal/app/down.go":                  {"List": "see teardown/teardown.go"},
	"internal/core/teardown/teardown.go":    {"InRuntime": "not everything is gone yet, and the error is for the user"},
	"internal/telemetry/stats/runtime.go":   {"Stats": "the last that is known, until it is too old", "Filesystems": "the last that is known, until it is too old"},
	"internal/api/nodeapi/exec.go":          {"AttachURL": "the error is for the user", "ExecURL": "the error is for the user", "PortForwardURL": "the error is for the user", "Exec": "the error is for the user"},
	"internal/api/nodeapi/pages.go":         {"Checkpoint": "the error is for the user"},
}

// otherClients are files in which these names are something else, or nothing is called by them.
var otherClients = []string{"internal/core/agent/agent.go", "internal/core/loop.go", "internal/cli/agent/once_follow.go", "internal/cluster/node/status.go", "internal/intake/source/apiserver.go"}

func TestNoAnswerOfTheRuntimeIsNoFactAboutAPod(t *testing.T) {
	methods := clientMethods(t)
	found := map[string]bool{}
	var dirs []string
	for pkg := range packages(t) {
		if pkg != "runtime/cri" && pkg != "runtime/fake" {
			dirs = append(dirs, filepath.Join("..", pkg))
		}
	}
	for _, dir := range dirs {
		for _, file := range sources(t, dir) {
			name := filepath.ToSlash(filepath.Join("internal", "arch", file))
			if slices.Contains(otherClients, name) {
				continue
			}
			for _, method := range runtimeCalls(t, file, methods) {
				found[name+" "+method] = true
			}
		}
	}
	for _, call := range slices.Sorted(maps.Keys(found)) {
		file, method, _ := strings.Cut(call, " ")
		if noAnswer[file][method] == "" {
			t.Errorf("%s calls %s of the runtime: say in the table what follows if it does not answer", file, method)
		}
	}
	for file, calls := range noAnswer {
		for method := range calls {
			if !found[file+" "+method] {
				t.Errorf("%s: %s is in the table, and is not called there", file, method)
			}
		}
	}
}

// clientMethods are the methods of cri.Client that ask the runtime something.
func clientMethods(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, file := range sources(t, filepath.Join("..", "runtime", "cri")) {
		for _, d := range parse(t, file).Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !f.Name.IsExported() || len(f.Type.Params.List) == 0 {
				continue
			}
			receiver, ok := f.Recv.List[0].Type.(*ast.StarExpr)
			if !ok {
				continue
			}
			of, ok := receiver.X.(*ast.Ident)
			first, isSelector := f.Type.Params.List[0].Type.(*ast.SelectorExpr)
			if ok && of.Name == "Client" && isSelector && first.Sel.Name == "Context" {
				out[f.Name.Name] = true
			}
		}
	}
	if len(out) < 20 {
		t.Fatalf("found only %v", out)
	}
	return out
}

// runtimeCalls returns the methods of the runtime that a file calls, or passes on as a function value.
func runtimeCalls(t *testing.T, file string, methods map[string]bool) []string {
	t.Helper()
	var out []string
	ast.Inspect(parse(t, file), func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of := ""
		switch x := s.X.(type) {
		case *ast.Ident:
			of = x.Name
		case *ast.SelectorExpr:
			of = "." + x.Sel.Name
		}
		switch call := of + "." + s.Sel.Name; {
		case call == ".Hooks.Run", call == ".config.Exec", s.Sel.Name == "InRuntime",
			methods[s.Sel.Name] && slices.Contains([]string{"client", ".client", ".Runtime", ".runtime"}, of):
			out = append(out, s.Sel.Name)
		}
		return true
	})
	return out
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
