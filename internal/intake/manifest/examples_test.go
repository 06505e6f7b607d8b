package manifest

import (
	"os"
	"path/filepath"
	"testing"
)

func TestExamplesAreGood(t *testing.T) {
	files, err := filepath.Glob("../../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("have %v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if r := Parse(data); len(r.Problems) > 0 || len(r.Pods) == 0 {
			t.Errorf("%s: %d pods, %q", file, len(r.Pods), formatProblems(r.Problems))
		}
	}
}
