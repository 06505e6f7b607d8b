package render

import runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

// Device is a block device of the host in a container.
type Device struct {
	HostPath      string
	ContainerPath string
	ReadOnly      bool
}

func devices(in []Device) []*runtimeapi.Device {
	var out []*runtimeapi.Device
	for _, d := range in {
		permissions := "mrw"
		if d.ReadOnly {
			permissions = "r"
		}
		out = append(out, &runtimeapi.Device{HostPath: d.HostPath, ContainerPath: d.ContainerPath, Permissions: permissions})
	}
	return out
}
