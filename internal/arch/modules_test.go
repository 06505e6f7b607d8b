package arch

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A reader of go.mod sees what the agent is made of: modules that only tests need have a block of their
// own, which is the one with a comment.
func TestGoModTellsTestModulesApart(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "berth/cmd/...")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	ofTheAgent := strings.Fields(string(out))
	blocks := regexp.MustCompile(`(?s)((?://[^\n]*\n)*)require \(\n(.*?)\n\)`).FindAllStringSubmatch(string(text), -1)
	forTests, direct := 0, 0
	for _, block := range blocks {
		for line := range strings.Lines(block[2]) {
			line = strings.TrimSpace(line)
			if strings.HasSuffix(line, "// indirect") {
				continue
			}
			direct++
			module, _, _ := strings.Cut(line, " ")
			switch needed := slices.Contains(ofTheAgent, module); {
			case block[1] != "":
				forTests++
				if needed {
					t.Errorf("go.mod: %s is in the block for tests, and the agent needs it", module)
				}
			case !needed:
				t.Errorf("go.mod: the agent does not need %s: use it in test/, which has a go.mod of its own, or move it to the block for tests", module)
			}
		}
	}
	if forTests == 0 || forTests == direct {
		t.Fatalf("%d of %d modules in go.mod are for tests: is it still written as this test reads it?", forTests, direct)
	}
}
