package volume

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pods/csi"
)

// A file system can be mounted with one SELinux label for all its files, which is faster than to label each of
// them. It is, if the CSI driver can (seLinuxMount in its CSIDriver object) and the pod has a label with a level: a
// volume for one pod (ReadWriteOncePod) by default, any other one with the feature gate SELinuxMount.

// mountsWithLabel reports whether a volume with these access modes is mounted with a label.
func mountsWithLabel(modes []v1.PersistentVolumeAccessMode, anyMode bool) bool {
	return anyMode || slices.Equal(modes, []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod})
}

// labelOfFiles returns the SELinux label that the files of a persistent volume need for a pod, or "" if each
// container may need another one. uses returns whether a volume of the pod is that persistent volume.
// fileLabel returns the label of files of a process, or "" if the machine has none.
func labelOfFiles(p *v1.Pod, uses func(volume string) bool, fileLabel func(v1.SELinuxOptions) (string, error)) (string, error) {
	of := p.Spec.SecurityContext
	if of != nil && of.SELinuxChangePolicy != nil && *of.SELinuxChangePolicy == v1.SELinuxChangePolicyRecursive {
		return "", nil
	}
	labels := map[string]bool{}
	for _, asked := range labelsAsked(p, uses) {
		if asked.Level == "" { // the runtime chooses one for each container
			return "", nil
		}
		label, err := fileLabel(asked)
		if err != nil {
			return "", err
		}
		labels[label] = true
	}
	switch names := slices.Sorted(maps.Keys(labels)); len(names) {
	case 0:
		return "", nil
	case 1:
		return names[0], nil
	default:
		return "", fmt.Errorf("%w: %s: containers that mount it need the same label, or the pod seLinuxChangePolicy Recursive", csi.ErrLabelsDiffer, strings.Join(names, ","))
	}
}

// labelsAsked returns the SELinux options of the containers that mount a volume and have some.
func labelsAsked(p *v1.Pod, uses func(volume string) bool) []v1.SELinuxOptions {
	var out []v1.SELinuxOptions
	add := func(mounts []v1.VolumeMount, own *v1.SecurityContext) {
		if !slices.ContainsFunc(mounts, func(m v1.VolumeMount) bool { return uses(m.Name) }) {
			return
		}
		switch {
		case own != nil && own.SELinuxOptions != nil:
			out = append(out, *own.SELinuxOptions)
		case p.Spec.SecurityContext != nil && p.Spec.SecurityContext.SELinuxOptions != nil:
			out = append(out, *p.Spec.SecurityContext.SELinuxOptions)
		}
	}
	for i := range p.Spec.InitContainers {
		add(p.Spec.InitContainers[i].VolumeMounts, p.Spec.InitContainers[i].SecurityContext)
	}
	for i := range p.Spec.Containers {
		add(p.Spec.Containers[i].VolumeMounts, p.Spec.Containers[i].SecurityContext)
	}
	for i := range p.Spec.EphemeralContainers {
		add(p.Spec.EphemeralContainers[i].VolumeMounts, p.Spec.EphemeralContainers[i].SecurityContext)
	}
	return out
}

// seLinuxLabel returns the function that computes the label of the volume of the claim, or nil if there is
// none. A CSI driver that can't mount with labels does without it.
func (j *job) seLinuxLabel(pv *v1.PersistentVolume) func() (csi.Label, error) {
	if j.claim == nil || j.m.cfg.FileLabel == nil || isBlock(pv) {
		return nil
	}
	claim := j.claim.Name
	uses := func(volume string) bool {
		i := slices.IndexFunc(j.pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == volume })
		if i < 0 {
			return false
		}
		v := &j.pod.Spec.Volumes[i]
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim || v.Ephemeral != nil && ephemeralClaim(j.pod, v.Name) == claim
	}
	return func() (csi.Label, error) {
		label, err := labelOfFiles(j.pod, uses, j.m.cfg.FileLabel)
		return csi.Label{Files: label, Mount: mountsWithLabel(pv.Spec.AccessModes, j.m.cfg.SELinuxMount)}, err
	}
}
