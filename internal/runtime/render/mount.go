package render

import v1 "k8s.io/api/core/v1"

// Mount is a mount of a container: a path of the host, or an image, at a path in the container.
type Mount struct {
	HostPath      string
	ContainerPath string

	ReadOnly          bool
	RecursiveReadOnly bool // read-only with all that is mounted below it
	Propagation       v1.MountPropagationMode
	SELinuxRelabel    bool

	// Image is set instead of HostPath for a volume that is an image. SubPath is the
	// part of that image; of all other volumes, HostPath leads to the part already.
	Image   string
	SubPath string
}
