package manifests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/cli/clitest"
	"berth/internal/core/review"
)

func TestValidate(t *testing.T) {
	good := clitest.Folder(t, map[string]string{"a.yaml": clitest.GoodPod, "b.txt": "no manifest", ".c.yaml": "hidden"})
	if got := clitest.Run(t, root, "", "validate", "-f", good); got != (clitest.Result{Out: "1 good pod in 1 manifest: 0 errors, 0 warnings\n"}) {
		t.Errorf("got %+v", got)
	}
	bad := clitest.Folder(t, map[string]string{"a.yaml": clitest.GoodPod, "b.yaml": strings.Replace(clitest.GoodPod, "restartPolicy", "restartPolice", 1), "c.yaml": ""})
	got := clitest.Run(t, root, "", "validate", "-f", bad)
	if got.Code != 1 || got.Stderr != "" || !strings.Contains(got.Out, bad+"/b.yaml:5: error: ") ||
		!strings.Contains(got.Out, bad+"/c.yaml: error: the manifest is empty\n") || !strings.HasSuffix(got.Out, "1 good pod in 3 manifests: 2 errors, 0 warnings\n") {
		t.Errorf("got %+v", got)
	}
	got = clitest.Run(t, root, strings.Replace(clitest.GoodPod, "app:1", "app:latest", 1), "validate", "-f", "-", "-o", "json")
	var v validationReport
	if err := json.Unmarshal([]byte(got.Out), &v); err != nil {
		t.Fatal(err)
	}
	if got.Code != 0 || v.Warnings != 1 || v.Errors != 0 || len(v.Pods) != 1 || v.Findings[0].Origin != "stdin" || v.Findings[0].Level != review.Warning {
		t.Errorf("got %+v", v)
	}
	for args, want := range map[string]string{
		"validate":                        "error: say what to look at with -f",
		"validate -f /nonexistent":        "error: look for manifests: stat /nonexistent",
		"validate -f " + t.TempDir():      "error: there are no manifests in ",
		"validate -f " + good + " -o xml": `error: output "xml" is not known: it can be any of json, yaml`,
	} {
		if got := clitest.Run(t, root, "", strings.Fields(args)...); got.Code != 1 || !strings.HasPrefix(got.Stderr, want) {
			t.Errorf("berth %s: got %+v", args, got)
		}
	}
}

func TestAManifestThatIsBeingWrittenIsNotValid(t *testing.T) {
	dir := clitest.Folder(t, map[string]string{"a.yaml": clitest.GoodPod})
	file, err := os.OpenFile(filepath.Join(dir, "a.yaml"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := clitest.Run(t, root, "", "validate", "-f", dir); got.Code != 1 || !strings.Contains(got.Out, "open for writing") {
		t.Errorf("got %+v", got)
	}
}

func TestTheExamplesAreValid(t *testing.T) {
	if got := clitest.Run(t, root, "", "validate", "-f", "../../../examples"); got.Code != 0 || !strings.Contains(got.Out, " 0 errors, 0 warnings\n") {
		t.Errorf("got %+v", got)
	}
}

func TestDiff(t *testing.T) {
	a := clitest.StartAgent(t, root, clitest.WithInventory)
	files := []review.File{{Origin: "/etc/web.yaml", Data: []byte(clitest.GoodPod)}}
	running, err := review.Read(files, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	a.Set(nil, running.Pods[0].Pod)
	same := clitest.Folder(t, map[string]string{"web.yaml": clitest.GoodPod})
	if got := a.Berth(t, "diff", "-f", same); got != (clitest.Result{}) {
		t.Errorf("got %+v", got)
	}
	edited := clitest.Folder(t, map[string]string{"web.yaml": strings.Replace(clitest.GoodPod, "app:1", "app:2", 1), "new.yaml": strings.Replace(clitest.GoodPod, "name: web", "name: new", 1)})
	got := a.Berth(t, "diff", "-f", edited)
	for _, want := range []string{
		"pod x/new-node-1 would be started: with 1 containers (" + edited + "/new.yaml)\n",
		"pod x/web-node-1 would be replaced: stopped within 30 s, then started anew\n--- running\n+++ " + edited + "/web.yaml\n",
		"\n-  - image: localhost/app:1\n+  - image: localhost/app:2\n",
	} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("there is no %q in\n%s", want, got.Out)
		}
	}
	if got.Code != exitDifferent || got.Stderr != "" {
		t.Errorf("got %+v", got)
	}
	other := clitest.Folder(t, map[string]string{"new.yaml": strings.Replace(clitest.GoodPod, "name: web", "name: new", 1)})
	got = a.Berth(t, "diff", "-f", other, "-o", "json")
	var changes []review.Change
	if err := json.Unmarshal([]byte(got.Out), &changes); err != nil {
		t.Fatal(err)
	}
	if len(changes) != 2 || changes[0].Kind != review.Started || changes[1].Kind != review.Removed || changes[1].Pod != "x/web-node-1" {
		t.Errorf("got %+v", changes)
	}
	broken := clitest.Folder(t, map[string]string{"web.yaml": clitest.GoodPod + "nonsense: 1\n"})
	got = a.Berth(t, "diff", "-f", broken)
	if got.Code != exitFailed || !strings.Contains(got.Stderr, "refused: "+broken+"/web.yaml:") || !strings.Contains(got.Stderr, "error: 1 manifest would be refused") {
		t.Errorf("got %+v", got)
	}
	none := clitest.NoAgent(t, root)
	if got := none.Berth(t, "diff", "-f", same); got.Code != exitFailed || !strings.HasPrefix(got.Stderr, "error: berth is not running") {
		t.Errorf("got %+v", got)
	}
}
