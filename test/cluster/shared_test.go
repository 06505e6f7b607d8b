//go:build real

package cluster

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

// What all tests of this process share. Each is made by the first who needs it.
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

// sharedLab is a whole cluster with the nodes one and two, both ready.
func sharedLab(t *testing.T) *lab.Lab {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.lab == nil {
		shared.lab = startLab(t, nil, control.ControllerManager, control.Scheduler)
		joinNode(t, shared.lab, "one")
		joinNode(t, shared.lab, "two")
	}
	t.Cleanup(func() { tellLogs(t, shared.lab) })
	must(t, shared.lab.AwaitNodes(t.Context()))
	return shared.lab
}

// sharedNamespace is a namespace of the API in the shared cluster for one test, and the
// admin's client.
func sharedNamespace(t *testing.T, name string) (*lab.Lab, kubernetes.Interface) {
	t.Helper()
	l := sharedLab(t)
	admin := clientOf(t, l, control.Admin())
	makeNamespace(t, admin, name)
	return l, admin
}

func closeShared() error {
	shared.Lock()
	defer shared.Unlock()
	var err error
	if shared.lab != nil {
		err = endLab(shared.lab)
	}
	if archive.path != "" {
		os.Remove(archive.path)
	}
	return err
}

const workloadImage = "localhost/workload:1"

// workloadArchive is the image that the pods of the tests run.
func workloadArchive(t *testing.T) string {
	t.Helper()
	archive.Lock()
	defer archive.Unlock()
	if archive.path != "" {
		return archive.path
	}
	data, err := fixture.Build("workload")
	must(t, err)
	var content bytes.Buffer
	must(t, ociarchive.Write(&content, ociarchive.Image{
		Tag: workloadImage, Entrypoint: []string{"/workload"}, Files: []ociarchive.File{
			{Path: "/workload", Mode: 0o755, Data: data}, {Path: "/bin/tar", Mode: 0o755, Data: data}, // for kubectl cp
		},
	}))
	file, err := os.CreateTemp("", "workload-*.tar")
	must(t, err)
	_, err = content.WriteTo(file)
	must(t, err)
	must(t, file.Close())
	archive.path = file.Name()
	return archive.path
}
