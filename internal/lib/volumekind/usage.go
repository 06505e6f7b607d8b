package volumekind

import v1 "k8s.io/api/core/v1"

// Usage is how the space that a volume takes is measured.
type Usage int

const (
	NotMeasured    Usage = iota // the space is not the pod's alone, or no part of its node's
	Filesystem                  // the volume is a file system of its own, which knows what is in use
	Files                       // the files are counted
	EphemeralFiles              // the files are counted, and belong to the ephemeral storage of the pod
)

// UsageOf returns how the space that a volume takes is measured.
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
