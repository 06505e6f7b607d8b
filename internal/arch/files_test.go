package arch

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// fileFunctions open, read, write, list, walk or remove files by their path, in a way that a
// container can turn against the agent: they follow links, wait for the writer of a pipe,
// read a file or a directory whole, or nest without end. "*" is all of a package.
var fileFunctions = map[string][]string{
	"os":                    {"Open", "OpenFile", "ReadFile", "ReadDir", "OpenRoot", "OpenInRoot", "DirFS", "CopyFS", "RemoveAll", "Create", "WriteFile", "Truncate"},
	"path/filepath":         {"Walk", "WalkDir", "Glob"},
	"io/fs":                 {"WalkDir", "ReadFile", "ReadDir", "Glob"},
	"io/ioutil":             {"*"},
	"syscall":               {"Open", "Openat"},
	"golang.org/x/sys/unix": {"Open", "Openat", "Openat2"},
}

// handlesPods are the packages that handle files that containers can write. For these, trusted
// names single functions in single files.
var handlesPods = []string{
	"internal/runtime/crilog", "internal/pods/csi", "internal/core/execute", "internal/pods/orphan", "internal/api/nodeapi", "internal/pods/plugins", "internal/api/localapi",
	"internal/telemetry/stats", "internal/pods/userns", "internal/pods/volume",
}

// trusted lists the packages and functions that may use fileFunctions, and why no container can
// write the files that they open. A key is a package, or a file and a function.
var trusted = map[string]string{
	"internal/lib/podfile": "it is where the checks are",

	"internal/lib/statefile":      "state files of the agent, beside which no container can make any",
	"internal/lib/atomicfile":     "it writes files of the agent, beside which no container can make any",
	"internal/lib/doctest":        "documents of the repository, in tests",
	"internal/host/selinux":       "files of the administrator and of the kernel",
	"internal/runtime/bundle":     "files of the agent, the runtime and the kernel",
	"internal/cluster/cert":       "keys and certificates of the node",
	"internal/pods/cgroup":        "cgroupfs: the kernel writes the content, and makes each directory cost its maker memory",
	"internal/config/kubelet":     "files of the administrator, read up to a limit",
	"internal/api/client":         "files of the user who runs the command line",
	"internal/runtime/credential": "files of the administrator, read up to a limit",
	"internal/host/doctor":        "what the kernel and the administrator say of the machine",
	"internal/telemetry/event":    "a file of the agent, which keeps it below a limit",
	"internal/runtime/image":      "records of the agent",
	"internal/cluster/node":       "what the kernel says of the machine",
	"internal/host/proc":          "what the kernel says of processes; what a process can choose (its command line) is read up to a limit, and only of those in no container",
	"internal/host/kernel":        "what the kernel says of the machine",
	"internal/host/rootlock":      "the lock file of the agent, and what the kernel says of its holder",
	"internal/host/roots":         "claims of the agents of this machine, below /run, and the names in two directories of the agent, in which no container can make any",
	"internal/cluster/shutdown":   "a file of systemd that the agent writes",
	"internal/intake/source":      "the manifest folder is the administrator's; files are read up to a limit, and opened without waiting",

	"internal/core/execute/hosts.go os.ReadFile":              "/etc/hosts of the machine",
	"internal/core/execute/terminationmessage.go os.OpenFile": "it makes a file with O_EXCL, and opens none",
	"internal/api/nodeapi/systemlogs.go os.OpenRoot":          "nothing leads out of it; files in it are opened without waiting, once they are known to be regular",
	"internal/telemetry/stats/machine.go os.ReadFile":         "what the kernel says of the machine",
	"internal/telemetry/stats/hardware.go os.ReadFile":        "what the kernel says of the machine",
	"internal/telemetry/stats/hardware.go path/filepath.Glob": "the kernel's list of processors",
	"internal/telemetry/stats/processes.go os.ReadFile":       "the limits of a process, a table of the kernel",
	"internal/telemetry/stats/processes.go os.Open":           "the kernel's list of the open files of a process, of which a bounded number is read",
	"internal/pods/volume/atomicwriter.go os.WriteFile":       "a file in a directory that was made for it a moment ago; containers have it read-only",
	"internal/pods/volume/subpath.go os.WriteFile":            "what a part of a volume is mounted on, in a directory of the agent",
	"internal/host/proc/proctest":                             "files of tests",
	"internal/cli/agent/once_root.go os.WriteFile":            "a file in the root of one run of the command line",
	"internal/pods/volume/csi.go os.OpenFile":                 "a handle (O_PATH) of the directory that a driver mounts on, below the pod's",
	"internal/pods/volume/hostpath.go os.OpenFile":            "it makes a file that a pod may ask for, and does not wait if there is a pipe",
	"internal/pods/volume/local.go os.OpenFile":               "a handle (O_PATH) of a directory that the administrator names",
	"internal/pods/volume/mounter.go os.ReadFile":             "the table of swap devices",
	"internal/pods/volume/open.go os.OpenFile":                "a directory, which is no file of a container, from where podfile goes on",
	"internal/pods/volume/subpath.go os.OpenFile":             "a handle (O_PATH) of the directory of a volume",
	"internal/config/saved.go os.ReadFile":                    "settings of the last run",
	"internal/cli/agent/kubelet.go os.OpenFile":               "a lock file that the administrator names",
	"internal/cli/agent/config.go os.ReadFile":                "settings of the administrator and of the agent",
	"internal/host/doctor/local.go os.DirFS":                  "what the kernel and the administrator say of the machine",
	"internal/app/core.go os.DirFS":                           "what the kernel says of the machine",
	"internal/cli/images/image.go os.Open":                    "a file of the user who runs the command line",
	"internal/core/execute/resolvconf.go os.Open":             "a file of the administrator",
	"internal/cli/clitest":                                    "files of a test",
	"internal/cli/manifests/manifests.go os.Open":             "a file of the user who runs the command line",
	"internal/cli/agent/once_root.go os.ReadDir":              "directories of the agent, named by itself and the administrator",
	"internal/cli/agent/once_root.go os.RemoveAll":            "the root of one run of the command line, after its pods are gone",
}

// fileCall is a use of one of fileFunctions.
type fileCall struct {
	file, function string // internal/pods/orphan/gc.go, os.ReadFile
	at             token.Position
}

func (c fileCall) pkg() string { return path.Dir(c.file) }

// trustedBy returns the key of trusted that covers the call, or "".
func (c fileCall) trustedBy() string {
	for _, key := range []string{c.file + " " + c.function, c.pkg()} {
		if trusted[key] != "" {
			return key
		}
	}
	return ""
}

func TestWhatContainersCanWriteIsReadThroughPodfile(t *testing.T) {
	used := map[string]bool{}
	for _, c := range fileCalls(t) {
		key := c.trustedBy()
		used[key] = true
		if key == "" {
			t.Errorf(`%s:%d uses %s, which trusts what it finds. Can a container write there: is it in the directory of a pod, a volume, `+
				`a log, /proc/PID of its processes, or a folder that pods get as a hostPath? Then use internal/lib/podfile (Read, Tail, Open, Each, Walk, RemoveAll), `+
				`which is bounded and follows no links. If only the agent, the kernel or the administrator can, add %q to trusted in internal/arch/files_test.go, with the reason.`,
				c.file, c.at.Line, c.function, suggestedKey(c))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(trusted)) {
		if !used[key] {
			t.Errorf("trusted has %q, and nothing there uses a function that needs it: remove the line", key)
		}
		if slices.Contains(handlesPods, key) {
			t.Errorf("%q handles what containers can write: trusted has to name a file and a function of it", key)
		}
	}
}

func suggestedKey(c fileCall) string {
	if slices.Contains(handlesPods, c.pkg()) || strings.HasPrefix(c.file, "internal/app") || strings.HasPrefix(c.file, "internal/cli") {
		return c.file + " " + c.function
	}
	return c.pkg()
}

func TestFileCallsAreFound(t *testing.T) {
	source := `package x
import ("os"; files "path/filepath"; "io/ioutil"; . "io/fs")
type reader struct{ os interface{ ReadFile(string) } }
func f(r reader) {
	os.ReadFile("a")
	read := os.ReadDir
	files.Glob("b")
	ioutil.TempDir("", "")
	os.Stat("not read")
	r.os.ReadFile("not the package")
}`
	var got []string
	for _, c := range fileCallsIn(t, "x/x.go", source) {
		got = append(got, c.function)
	}
	want := []string{"io/fs as .", "os.ReadFile", "os.ReadDir", "path/filepath.Glob", "io/ioutil.TempDir"}
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// fileCalls finds the uses of fileFunctions in the code of the agent and its command line.
func fileCalls(t *testing.T) []fileCall {
	t.Helper()
	var out []fileCall
	for _, name := range allSources(t) {
		out = append(out, fileCallsIn(t, name, nil)...)
	}
	return out
}

// fileCallsIn finds them in one file, whose source is read if it is nil.
func fileCallsIn(t *testing.T, name string, source any) []fileCall {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, filepath.Join("../..", name), source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var out []fileCall
	imported := map[string]string{} // by the name that the file uses
	for _, spec := range parsed.Imports {
		from, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if fileFunctions[from] == nil {
			continue
		}
		local := path.Base(from)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		imported[local] = from
		if local == "." {
			out = append(out, fileCall{name, from + " as .", set.Position(spec.Pos())})
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok {
			from := imported[x.Name]
			if slices.Contains(fileFunctions[from], sel.Sel.Name) || slices.Contains(fileFunctions[from], "*") {
				out = append(out, fileCall{name, fmt.Sprint(from, ".", sel.Sel.Name), set.Position(sel.Pos())})
			}
		}
		return true
	})
	slices.SortStableFunc(out, func(a, b fileCall) int { return cmp.Compare(a.at.Offset, b.at.Offset) })
	return out
}
