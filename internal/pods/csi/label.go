package csi

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Label is the SELinux label that the files of a volume need for a pod.
type Label struct {
	Files string // "": none
	// Mount says that the volume is mounted with the label. If not, the runtime labels the files; a
	// Kubernetes with the feature gate SELinuxMount would mount the volume with it, too.
	Mount bool
}

// ErrLabelsDiffer says that containers of a pod that mount the same volume need different labels.
var ErrLabelsDiffer = errors.New("multiple SELinux labels found")

// LabelOutcome is what became of the label of a volume, in the words of the kubelet's metrics.
type LabelOutcome string

// The outcomes.
const (
	LabelAdmitted        LabelOutcome = "volumes_admitted"
	LabelUnknown         LabelOutcome = "container" // the label of a container can't be computed
	PodLabelsDiffer      LabelOutcome = "pod_context_mismatch"
	LabelOfOthersDiffers LabelOutcome = "volume_context_mismatch" // another pod has the volume with another label
)

// findLabel computes the label of the volume. Where the volume is not mounted with it, a failure is only
// counted, as a warning.
func (j *job) findLabel() error {
	label, err := j.r.SELinuxLabel()
	switch {
	case err == nil:
		j.fileLabel = label.Files
		if label.Mount {
			j.mountLabel = label.Files
		}
		return nil
	case errors.Is(err, ErrLabelsDiffer):
		j.countLabel(PodLabelsDiffer, !label.Mount)
	default:
		j.countLabel(LabelUnknown, !label.Mount)
	}
	if !label.Mount {
		return nil
	}
	return err
}

// checkLabel returns an error if another pod has the volume mounted with another SELinux label. The pod
// waits until that one has released it.
func (j *job) checkLabel(others map[string]record) error {
	for _, r := range others {
		if r.SELinuxLabel != j.mountLabel {
			j.countLabel(LabelOfOthersDiffers, false)
			return &Waiting{fmt.Sprintf("another pod to release the volume: it is mounted with SELinux label %q, and this pod needs %q", r.SELinuxLabel, j.mountLabel)}
		}
	}
	for _, r := range others {
		if r.FileLabel != j.fileLabel {
			j.countLabel(LabelOfOthersDiffers, true)
			return nil
		}
	}
	return nil
}

// mountFlags returns the mount options, with that for the SELinux label. A label may have commas.
func (j *job) mountFlags() []string {
	if j.mountLabel == "" {
		return j.r.MountOptions
	}
	return append(slices.Clone(j.r.MountOptions), fmt.Sprintf("context=%q", j.mountLabel))
}

func (j *job) countLabel(outcome LabelOutcome, warning bool) {
	if j.m.OnLabel != nil {
		j.m.OnLabel(outcome, warning, j.id.driver, shortMode(j.r.AccessModes))
	}
}

// shortMode returns the abbreviation of the widest of the access modes.
func shortMode(modes []v1.PersistentVolumeAccessMode) string {
	for _, m := range []struct {
		mode  v1.PersistentVolumeAccessMode
		short string
	}{{v1.ReadWriteMany, "RWX"}, {v1.ReadOnlyMany, "ROX"}, {v1.ReadWriteOnce, "RWO"}, {v1.ReadWriteOncePod, "RWOP"}} {
		if slices.Contains(modes, m.mode) {
			return m.short
		}
	}
	return ""
}
