//go:build real

// Package kit is what the tests of test/real have in common: Node, a machine of a test's own as far as
// that can be had cheaply, with a root directory, a folder of manifests, a network namespace and a
// cgroup; pods and objects for it; and what can be seen of them past the agent, in the container
// runtime, in the kernel and on the disk.
//
// The tests use berth as its users have it: the built program, with a real container runtime and real
// containers. Each folder of test/real is named after the group of internal/ that it tests. Root and
// `make build` are needed; `make test-real` does all of that.
package kit

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/runtime/ociarchive"
	"berth/test/fixture"
)

// Main is the TestMain of each folder.
func Main(m *testing.M) { os.Exit(fixture.RunTests(m)) }

// BerthProgram is the built agent.
func BerthProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(fixture.BinDir(), "berth")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("berth is not built, run 'make build': %v", err)
	}
	return path
}

// WorkloadImage is the image that most pods of the tests run.
const WorkloadImage = "localhost/workload:1"

// WorkloadArchive makes an image of the workload, in the format that write writes.
func WorkloadArchive(t *testing.T, tag string, write func(io.Writer, ociarchive.Image) error) []byte {
	t.Helper()
	program, err := fixture.Build("workload")
	if err != nil {
		t.Fatal(err)
	}
	return imageOf(t, tag, program, write)
}

// ProgramArchive makes an image of another program of the tests.
func ProgramArchive(t *testing.T, tag, name string) []byte {
	t.Helper()
	program, err := fixture.Build(name)
	if err != nil {
		t.Fatal(err)
	}
	return imageOf(t, tag, program, ociarchive.Write)
}

func imageOf(t *testing.T, tag string, program []byte, write func(io.Writer, ociarchive.Image) error) []byte {
	t.Helper()
	var out bytes.Buffer
	err := write(&out, ociarchive.Image{
		Tag:        tag,
		Files:      []ociarchive.File{{Path: "/workload", Mode: 0o755, Data: program}},
		Entrypoint: []string{"/workload"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
