//go:build real

// Package real tests berth as its users have it: the built program, with a real
// container runtime and real containers. Every test has a machine of its own, as
// far as that can be had cheaply: a root directory, a folder of manifests, a
// network namespace and a cgroup. See node.
//
// Root and `make build` are needed; `make test-real` does all of that.
package real

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"berth/internal/runtime/ociarchive"
	"berth/test/fixture"
)

// atATime is how many tests run at the same time. They wait a lot, so it may be
// more than there are cores; much more, and the waits run out.
const atATime = "3"

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests start containers, and so need root")
		os.Exit(1)
	}
	// Given before the command line is read, so -parallel still counts.
	if err := flag.Set("test.parallel", atATime); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// berthProgram is the built agent.
func berthProgram(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../bin/berth")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("berth is not built, run 'make build': %v", err)
	}
	return path
}

// workload is the program that runs in containers. It is built once.
var workload = sync.OnceValues(func() ([]byte, error) { return fixture.Build("workload") })

// workloadImage is the image that most pods of the tests run.
const workloadImage = "localhost/workload:1"

// archive makes an image of the workload, in the format that write writes.
func archive(t *testing.T, tag string, write func(io.Writer, ociarchive.Image) error) []byte {
	t.Helper()
	program, err := workload()
	if err != nil {
		t.Fatal(err)
	}
	return imageOf(t, tag, program, write)
}

// archiveOf makes an image of another program of the tests.
func archiveOf(t *testing.T, tag, name string) []byte {
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
