package execute

import (
	"context"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/pods/csi"
	"berth/internal/pods/volume"
)

// fullVolumes can't attach a volume of a pod.
type fullVolumes struct{ Volumes }

func (fullVolumes) Setup(context.Context, *v1.Pod, []string) (time.Time, error) {
	return time.Time{}, volume.Errors{{Volume: "disk", Err: &csi.AttachLimitExceeded{Message: "no slot is free"}}}
}

func TestAPodWhoseVolumeDoesNotFitOnTheNodeFails(t *testing.T) {
	onNode(t, 1, func(n *node) {
		n.Volumes = fullVolumes{n.volumes}
		p := web("a", "app")
		outcome, err := n.sync(p)
		if err != nil || !outcome.Finished {
			t.Fatalf("the pod goes on: %+v, %v", outcome, err)
		}
		n.stopped(p)
		if s, _ := n.Reports.Statuses.Get(p.UID); s.Phase != v1.PodFailed || s.Reason != pod.ReasonAttachLimitExceeded {
			t.Errorf("the pod is %s, %s: %s", s.Phase, s.Reason, s.Message)
		}
		want := `VolumeAttachmentLimitExceeded set up volumes: volume "disk": the volume can't be attached to this node: no slot is free`
		if !slices.Contains(n.events.All(), want) {
			t.Errorf("events: %q", n.events.All())
		}
	})
}
