package config

import (
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"berth/internal/lib/cgroupname"
)

// Cgroups configures the cgroups of pods and of the daemons of the node.
type Cgroups struct {
	// CgroupDriver is the driver for a runtime that does not say which one it has. Empty: cgroupfs. A runtime that says
	// it is followed, as by the kubelet.
	CgroupDriver cgroupname.Driver
}

func (l *loader) cgroups(k *kubeletconfig.KubeletConfiguration) Cgroups {
	var out Cgroups
	if k.CgroupDriver != "" {
		var err error
		if out.CgroupDriver, err = cgroupname.Parse(k.CgroupDriver); err != nil {
			l.fail("cgroupDriver", k.CgroupDriver, "want %s or %s", cgroupname.Cgroupfs, cgroupname.Systemd)
		}
	}
	return out
}

func (c Cgroups) writeTo(k *kubeletconfig.KubeletConfiguration) {
	k.CgroupDriver = string(c.CgroupDriver)
}
