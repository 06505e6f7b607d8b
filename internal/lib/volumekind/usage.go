package volumekind

import v1 "k8s.io/api/core/v1"

// Usage is how the disk space of a volume is measured.
type Usage int

const (
	NotMeasured    Usage = iota // the space is shared with others, or is not on the node
	Filesystem                  // the volume is a file system of its own: statfs returns the used space
	Files                       // the sizes of the files are added up
	EphemeralFiles              // as Files, and they count as ephemeral storage of the pod
)

// UsageOf returns how the disk space of a volume is measured.
func UsageOf(s *v1.VolumeSource) Usage { return Of(s).row().usage(s) }

func always(u Usage) func(*v1.VolumeSource) Usage {
	return func(*v1.VolumeSource) Usage { return u }
}

func emptyDirUsage(s *v1.VolumeSource) Usage {
	if s.EmptyDir.Medium != v1.StorageMediumDefault {
		return Filesystem
	}
	return EphemeralFiles
}
