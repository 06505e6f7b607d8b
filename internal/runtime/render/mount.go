package render

import v1 "k8s.io/api/core/v1"

// Mount is a mount of a container: a path of the host, or an image, at a path in the container.
type Mount struct {
	HostPath      string
	ContainerPath string

	ReadOnly          bool
	RecursiveReadOnly bool // all mounts below it are read-only, too
	Propagation       v1.MountPropagationMode
	SELinuxRelabel    bool

	// Image is set instead of HostPath for an image volume. SubPath is a path in that image;
	// of other volumes, HostPath contains the subPath already.
	Image   string
	SubPath string
}
