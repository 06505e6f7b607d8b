package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const someReport = `[{"SpecReports": [
  {"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
  {"ContainerHierarchyTexts": ["[sig-node] Pods", "with limits"], "LeafNodeType": "It", "LeafNodeText": "run", "State": "passed"},
  {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "end", "State": "timedout",
   "Failure": {"Message": "still there", "Location": {"FileName": "pods.go", "LineNumber": 7}}, "CapturedGinkgoWriterOutput": "waiting"},
  {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "not chosen", "State": "skipped"},
  {"ContainerHierarchyTexts": ["[sig-node] Volumes"], "LeafNodeType": "It", "LeafNodeText": "with SELinux", "State": "skipped",
   "Failure": {"Message": "no SELinux here"}},
  {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "too late", "State": "timedout",
   "Failure": {"Message": "A suite timeout occurred"}}
]}]`

func TestAReportTellsHowEachSpecEnded(t *testing.T) {
	specs, err := parseReport([]byte(someReport))
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name, group string
		state       state
	}{
		{"[sig-node] Pods with limits run", "[sig-node] Pods", passed},
		{"[sig-node] Pods end", "[sig-node] Pods", failed},
		{"[sig-node] Volumes with SELinux", "[sig-node] Volumes", skipped},
	}
	if len(specs) != len(want) {
		t.Fatalf("%d specs ran, want %d: %v", len(specs), len(want), specs)
	}
	for i, w := range want {
		if s := specs[i]; s.name != w.name || s.group != w.group || s.state != w.state {
			t.Errorf("spec %d is %q of %q, %s; want %q of %q, %s", i, s.name, s.group, s.state, w.name, w.group, w.state)
		}
	}
	dir := t.TempDir()
	if err := writeFailures(dir, specs); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*sig-node-Pods-end*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs of the failure: %v, %v; want one", logs, err)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"still there", "pods.go:7", "waiting"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the log of the failure lacks %q: %s", part, text)
		}
	}
}

func TestASuiteThatDidNotStartIsNoReport(t *testing.T) {
	_, err := parseReport([]byte(`[{"SpecReports": [
		{"LeafNodeType": "SynchronizedBeforeSuite", "State": "failed", "Failure": {"Message": "no kubelet"}}]}]`))
	if err == nil || !strings.Contains(err.Error(), "no kubelet") {
		t.Errorf("error %v, want one that says why", err)
	}
}

func TestTheVerdictIsAgainstTheYardstick(t *testing.T) {
	y := yardstick{states: map[string]state{"g passes": passed, "g fails": failed, "g skips": skipped}}
	tests := map[string]struct {
		ran  []spec
		fits bool
	}{
		"as upstream's":                       {[]spec{{"g passes", "g", passed, ""}, {"g fails", "g", failed, ""}, {"g skips", "g", skipped, ""}}, true},
		"better":                              {[]spec{{"g fails", "g", passed, ""}}, true},
		"fails what upstream's passes":        {[]spec{{"g passes", "g", failed, ""}}, false},
		"skips what upstream's passes":        {[]spec{{"g passes", "g", skipped, ""}, {"g fails", "g", passed, ""}}, false},
		"fails what the yardstick lacks":      {[]spec{{"g new", "g", failed, ""}}, false},
		"passes what the yardstick lacks":     {[]spec{{"g new", "g", passed, ""}}, true},
		"nothing ran":                         {nil, false},
		"nothing but specs that were skipped": {[]spec{{"g skips", "g", skipped, ""}}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := summarize(test.ran, y)
			if err := s.verdict(); (err == nil) != test.fits {
				t.Errorf("verdict %v, want one that fits: %v\n%s", err, test.fits, s)
			}
		})
	}
}

func TestTheTableCountsByGroup(t *testing.T) {
	y := yardstick{states: map[string]state{"a 1": passed, "a 2": passed, "b 1": failed}}
	text := summarize([]spec{{"a 1", "a", passed, ""}, {"a 2", "a", failed, ""}, {"b 1", "b", failed, ""}}, y).String()
	for _, line := range []string{
		"a 1 1 0 2", "b 0 1 0 0", "all 1 2 0 2", "not passed, but by upstream's kubelet: a 2", "failed, as with upstream's kubelet: b 1",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), line) {
			t.Errorf("the table lacks %q:\n%s", line, text)
		}
	}
}
