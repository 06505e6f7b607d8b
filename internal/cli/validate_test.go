package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"berth/internal/core/review"
)

const goodPod = `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: x}
spec:
  restartPolicy: Never
  containers: [{name: app, image: "localhost/app:1"}]
`

// folder makes a folder with files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// local runs a command that needs no agent, with a text on stdin.
func local(t *testing.T, root func() *cobra.Command, stdin string, args ...string) result {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd := root()
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&stderr)
	code := execute(t.Context(), cmd, &stderr, args...)
	return result{code: code, out: out.String(), stderr: stderr.String()}
}

func TestValidate(t *testing.T) {
	good := folder(t, map[string]string{"a.yaml": goodPod, "b.txt": "no manifest", ".c.yaml": "hidden"})
	if got := local(t, testRoot, "", "validate", "-f", good); got != (result{out: "1 good pod in 1 manifest: 0 errors, 0 warnings\n"}) {
		t.Errorf("got %+v", got)
	}
	bad := folder(t, map[string]string{"a.yaml": goodPod, "b.yaml": strings.Replace(goodPod, "restartPolicy", "restartPolice", 1), "c.yaml": ""})
	got := local(t, testRoot, "", "validate", "-f", bad)
	if got.code != 1 || got.stderr != "" || !strings.Contains(got.out, bad+"/b.yaml:5: error: ") ||
		!strings.Contains(got.out, bad+"/c.yaml: error: the manifest is empty\n") || !strings.HasSuffix(got.out, "1 good pod in 3 manifests: 2 errors, 0 warnings\n") {
		t.Errorf("got %+v", got)
	}
	got = local(t, testRoot, strings.Replace(goodPod, "app:1", "app:latest", 1), "validate", "-f", "-", "-o", "json")
	var v verdict
	if err := json.Unmarshal([]byte(got.out), &v); err != nil {
		t.Fatal(err)
	}
	if got.code != 0 || v.Warnings != 1 || v.Errors != 0 || len(v.Pods) != 1 || v.Findings[0].Origin != "stdin" || v.Findings[0].Level != review.Warning {
		t.Errorf("got %+v", v)
	}
	for args, want := range map[string]string{
		"validate":                        "error: say what to look at with -f",
		"validate -f /nonexistent":        "error: look for manifests: stat /nonexistent",
		"validate -f " + t.TempDir():      "error: there are no manifests in ",
		"validate -f " + good + " -o xml": `error: output "xml" is not known: it can be any of json, yaml`,
	} {
		if got := local(t, testRoot, "", strings.Fields(args)...); got.code != 1 || !strings.HasPrefix(got.stderr, want) {
			t.Errorf("berth %s: got %+v", args, got)
		}
	}
}

func TestAManifestThatIsBeingWrittenIsNotValid(t *testing.T) {
	dir := folder(t, map[string]string{"a.yaml": goodPod})
	file, err := os.OpenFile(filepath.Join(dir, "a.yaml"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := local(t, testRoot, "", "validate", "-f", dir); got.code != 1 || !strings.Contains(got.out, "open for writing") {
		t.Errorf("got %+v", got)
	}
}

func TestTheExamplesAreValid(t *testing.T) {
	if got := local(t, testRoot, "", "validate", "-f", "../../examples"); got.code != 0 || !strings.Contains(got.out, " 0 errors, 0 warnings\n") {
		t.Errorf("got %+v", got)
	}
}

func TestDiff(t *testing.T) {
	a := startAgent(t, testRoot, withInventory)
	files := []review.File{{Origin: "/etc/web.yaml", Data: []byte(goodPod)}}
	running, err := review.Read(files, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	a.set(nil, running.Pods[0].Pod)
	same := folder(t, map[string]string{"web.yaml": goodPod})
	if got := a.berth(t, "diff", "-f", same); got != (result{}) {
		t.Errorf("got %+v", got)
	}
	edited := folder(t, map[string]string{"web.yaml": strings.Replace(goodPod, "app:1", "app:2", 1), "new.yaml": strings.Replace(goodPod, "name: web", "name: new", 1)})
	got := a.berth(t, "diff", "-f", edited)
	for _, want := range []string{
		"pod x/new-node-1 would be started: with 1 containers (" + edited + "/new.yaml)\n",
		"pod x/web-node-1 would be replaced: stopped within 30 s, then started anew\n--- running\n+++ " + edited + "/web.yaml\n",
		"\n-  - image: localhost/app:1\n+  - image: localhost/app:2\n",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("there is no %q in\n%s", want, got.out)
		}
	}
	if got.code != diffFound || got.stderr != "" {
		t.Errorf("got %+v", got)
	}
	other := folder(t, map[string]string{"new.yaml": strings.Replace(goodPod, "name: web", "name: new", 1)})
	got = a.berth(t, "diff", "-f", other, "-o", "json")
	var changes []review.Change
	if err := json.Unmarshal([]byte(got.out), &changes); err != nil {
		t.Fatal(err)
	}
	if len(changes) != 2 || changes[0].Kind != review.Started || changes[1].Kind != review.Removed || changes[1].Pod != "x/web-node-1" {
		t.Errorf("got %+v", changes)
	}
	broken := folder(t, map[string]string{"web.yaml": goodPod + "nonsense: 1\n"})
	got = a.berth(t, "diff", "-f", broken)
	if got.code != diffTrouble || !strings.Contains(got.stderr, "refused: "+broken+"/web.yaml:") || !strings.Contains(got.stderr, "error: 1 manifest would be refused") {
		t.Errorf("got %+v", got)
	}
	none := noAgent(t, testRoot)
	if got := none.berth(t, "diff", "-f", same); got.code != diffTrouble || !strings.HasPrefix(got.stderr, "error: berth is not running") {
		t.Errorf("got %+v", got)
	}
}
