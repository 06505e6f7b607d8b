package main

import (
	"os"
	"path/filepath"
	"testing"
)

// berth's tables are compared with these files by its own tests.
const testdata = "../../../../../internal/config/kubelet/testdata"

func TestTheRecordedFactsAreTheKubelets(t *testing.T) {
	got, err := collect(filepath.Join(testdata, "cases.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := os.ReadFile(filepath.Join(testdata, "upstream.json"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(recorded) {
		t.Error("the kubelet of this version differs from what was recorded: run 'make kubelet-facts', and bring the tables up to date")
	}
}
