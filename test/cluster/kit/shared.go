//go:build real

package kit

import (
	"bytes"
	"os"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"

	"berth/internal/runtime/ociarchive"
	"berth/test/fixture"
	"berth/test/lab"
	"berth/test/lab/control"
)

// shared is the cluster and archive is the image that all tests of this process share. Each is made on first use.
var (
	shared struct {
		sync.Mutex
		lab *lab.Lab
	}
	archive struct {
		sync.Mutex
		path string
	}
)

// SharedLab is a whole cluster with the nodes one and two, both ready.
func SharedLab(t *testing.T) *lab.Lab {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.lab == nil {
		shared.lab = startLab(t, nil, control.ControllerManager, control.Scheduler)
		JoinNode(t, shared.lab, "one")
		JoinNode(t, shared.lab, "two")
	}
	t.Cleanup(func() { DumpLogs(t, shared.lab) })
	Must(t, shared.lab.AwaitNodes(t.Context()))
	return shared.lab
}

// SharedNamespace is a namespace of the API in the shared cluster for one test, and the
// admin's client.
func SharedNamespace(t *testing.T, name string) (*lab.Lab, kubernetes.Interface) {
	t.Helper()
	l := SharedLab(t)
	admin := Client(t, l, control.Admin())
	MakeNamespace(t, admin, name)
	return l, admin
}

func closeShared() error {
	shared.Lock()
	defer shared.Unlock()
	var err error
	if shared.lab != nil {
		err = EndLab(shared.lab)
	}
	if archive.path != "" {
		os.Remove(archive.path)
	}
	return err
}

// WorkloadImage is the image that most pods of the tests run.
const WorkloadImage = "localhost/workload:1"

// WorkloadArchive is the image that the pods of the tests run.
func WorkloadArchive(t *testing.T) string {
	t.Helper()
	archive.Lock()
	defer archive.Unlock()
	if archive.path != "" {
		return archive.path
	}
	data, err := fixture.Build("workload")
	Must(t, err)
	var content bytes.Buffer
	Must(t, ociarchive.Write(&content, ociarchive.Image{
		Tag: WorkloadImage, Entrypoint: []string{"/workload"}, Files: []ociarchive.File{
			{Path: "/workload", Mode: 0o755, Data: data}, {Path: "/bin/tar", Mode: 0o755, Data: data}, // for kubectl cp
		},
	}))
	file, err := os.CreateTemp("", "workload-*.tar")
	Must(t, err)
	_, err = content.WriteTo(file)
	Must(t, err)
	Must(t, file.Close())
	archive.path = file.Name()
	return archive.path
}
