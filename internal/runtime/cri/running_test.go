package cri

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestARunningContainerIsChanged(t *testing.T) {
	s := &server{answers: map[string]proto.Message{
		"UpdateContainerResources": &runtimeapi.UpdateContainerResourcesResponse{},
		"ReopenContainerLog":       &runtimeapi.ReopenContainerLogResponse{},
	}}
	c := clientOf(t, s)
	half := &runtimeapi.LinuxContainerResources{CpuQuota: 50_000}
	if err := c.UpdateContainer(t.Context(), "c1", half); err != nil {
		t.Fatal(err)
	}
	if got := request[*runtimeapi.UpdateContainerResourcesRequest](t, s, "UpdateContainerResources"); got.ContainerId != "c1" || !proto.Equal(got.Linux, half) {
		t.Errorf("updated %v", got)
	}
	if err := c.ReopenLog(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	if got := request[*runtimeapi.ReopenContainerLogRequest](t, s, "ReopenContainerLog").ContainerId; got != "c1" {
		t.Errorf("reopened the log of %q", got)
	}
}

func TestACheckpointHasTheTimeThatWasAskedFor(t *testing.T) {
	s := &server{answers: map[string]proto.Message{"CheckpointContainer": &runtimeapi.CheckpointContainerResponse{}}}
	c := clientOf(t, s) // which waits for 10 s
	for timeout, want := range map[time.Duration]struct {
		seconds     int64
		least, most time.Duration
	}{
		0:                       {0, startTimeout - 5*time.Second, startTimeout},
		1500 * time.Millisecond: {2, 2 * time.Second, 12 * time.Second},
	} {
		if err := c.Checkpoint(t.Context(), "c1", "/a.tar", timeout); err != nil {
			t.Fatal(err)
		}
		r := request[*runtimeapi.CheckpointContainerRequest](t, s, "CheckpointContainer")
		if r.ContainerId != "c1" || r.Location != "/a.tar" || r.Timeout != want.seconds {
			t.Errorf("%s: asked for %v", timeout, r)
		}
		if has := s.timeouts["CheckpointContainer"]; has < want.least || has > want.most {
			t.Errorf("%s: it may take %s", timeout, has)
		}
	}
}
