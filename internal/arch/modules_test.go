package arch

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A reader of go.mod sees what the agent is made of: a module that only tests need is in test/go.mod.
func TestGoModListsWhatTheAgentNeeds(t *testing.T) {
	text, err := exec.Command("go", "mod", "edit", "-json", "../../go.mod").Output()
	if err != nil {
		t.Fatal(err)
	}
	var listed struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(text, &listed); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "berth/cmd/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	needed := strings.Fields(string(out))
	direct := 0
	for _, module := range listed.Require {
		if module.Indirect {
			continue
		}
		direct++
		if !slices.Contains(needed, module.Path) {
			t.Errorf("go.mod: the agent does not need %s: use it in test/, which has a go.mod of its own", module.Path)
		}
	}
	if direct == 0 {
		t.Error("go.mod lists no module that the agent imports: is it still read as it is written?")
	}
}
