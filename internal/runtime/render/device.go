package render

import runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

// Device is a device of the host that a container gets.
type Device struct {
	HostPath      string
	ContainerPath string
	ReadOnly      bool
}

func devices(in []Device) []*runtimeapi.Device {
	var out []*runtimeapi.Device
	for _, d := range in {
		may := "mrw"
		if d.ReadOnly {
			may = "r"
		}
		out = append(out, &runtimeapi.Device{HostPath: d.HostPath, ContainerPath: d.ContainerPath, Permissions: may})
	}
	return out
}
