package event

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/internal/lib/doctest"
)

const internalDir = "../.."

// row is a reason of testdata/upstream.txt.
type row struct {
	reason, state, text string // state is at, because, missing or own
	file                string // where berth records it, below internal
}

func readRows(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile("testdata/upstream.txt")
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		reason, rest, _ := strings.Cut(line, " ")
		state, rest, _ := strings.Cut(rest, " ")
		r := row{reason: reason, state: state, text: rest}
		switch state {
		case "at":
			r.file, r.text = rest, ""
		case "own":
			r.file, r.text, _ = strings.Cut(rest, " ")
		case "because", "missing":
		default:
			t.Fatalf("upstream.txt: %q has no state", line)
		}
		rows = append(rows, r)
	}
	return rows
}

// TestTheListHasAllReasonsOfTheKubelet compares the list with the reasons that were found in the kubelet's source.
func TestTheListHasAllReasonsOfTheKubelet(t *testing.T) {
	text, err := os.ReadFile("../../config/kubelet/testdata/upstream.json")
	if err != nil {
		t.Fatal(err)
	}
	var facts struct{ Events []string }
	if err := json.Unmarshal(text, &facts); err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, r := range readRows(t) {
		if r.state != "own" {
			listed = append(listed, r.reason)
		}
	}
	if !slices.Equal(listed, facts.Events) {
		for _, reason := range facts.Events {
			if !slices.Contains(listed, reason) {
				t.Errorf("%s is missing in upstream.txt", reason)
			}
		}
		t.Errorf("upstream.txt lists %d reasons of the kubelet, in the order of the alphabet; the kubelet has %d", len(listed), len(facts.Events))
	}
}

func TestReasonsAreRecordedWhereTheListSays(t *testing.T) {
	sources := readSources(t)
	for _, r := range readRows(t) {
		if r.file != "" {
			if !records(sources[r.file], r.reason) {
				t.Errorf("internal/%s does not have the reason %s", r.file, r.reason)
			}
			continue
		}
		for file, text := range sources {
			if !strings.HasPrefix(file, "telemetry/event/") && strings.Contains(text, "event."+r.reason) {
				t.Errorf("%s is %q by the list, and internal/%s has it", r.reason, r.state, file)
			}
		}
	}
}

// readSources returns the text of all Go files below internal but tests.
func readSources(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(internalDir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(internalDir, path) // it is below
		out[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func records(text, reason string) bool {
	return strings.Contains(text, fmt.Sprintf("%q", reason)) || strings.Contains(text, "event."+reason+",")
}

func TestTheDocumentIsMadeFromTheList(t *testing.T) {
	want := document(readRows(t))
	doctest.Check(t, "events.md", want)
}

const introduction = `# Events

<!-- Made from internal/telemetry/event/testdata by 'make docs'. -->

Reasons are those of kubelet 1.36.3. This table has every reason of the kubelet with its state:

- a file: berth records it; the file has the reason
- no meaning: there is nothing that berth could record, for the reason given
- missing: berth lacks what it is about, or does not notice it

A pod that is rejected has the reason of the rejection, such as OutOfcpu or NodeAffinity, as with the kubelet. 'berth get events' shows the events
of a node without a cluster, too.

`

// document returns docs/events.md.
func document(rows []row) string {
	var kubelets, own strings.Builder
	count := map[string]int{}
	for _, r := range rows {
		link := fmt.Sprintf("[%[1]s](../internal/%[1]s)", r.file)
		count[r.state]++
		switch r.state {
		case "at":
			fmt.Fprintf(&kubelets, "| `%s` | %s |\n", r.reason, link)
		case "because":
			fmt.Fprintf(&kubelets, "| `%s` | no meaning: %s |\n", r.reason, r.text)
		case "missing":
			fmt.Fprintf(&kubelets, "| `%s` | missing: %s |\n", r.reason, r.text)
		case "own":
			fmt.Fprintf(&own, "| `%s` | %s (%s) |\n", r.reason, r.text, link)
		}
	}
	all := count["at"] + count["because"] + count["missing"]
	return introduction + fmt.Sprintf("| reasons of the kubelet | berth records | no meaning | missing |\n|---|---|---|---|\n| %d | %d | %d | %d |\n",
		all, count["at"], count["because"], count["missing"]) +
		"\n## Reasons of the kubelet\n\n| reason | state |\n|---|---|\n" + kubelets.String() +
		"\n## Berth's own\n\n| reason | meaning |\n|---|---|\n" + own.String()
}
