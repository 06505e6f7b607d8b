package app

import "berth/internal/pods/volume"

// An agent that unmounts something starts itself again for that: a process that waits for
// a server which does not answer can be killed, and a part of one can't. No user sees it.
const unmountCommand = "unmount-for-agent"

// newMounter returns the mount operations of this machine for volumes.
func newMounter() volume.Kernel {
	return volume.Kernel{Unmounter: []string{"/proc/self/exe", unmountCommand}}
}

// UnmountRequested unmounts a path if the arguments of this process ask for it.
func UnmountRequested(args []string) (code int, asked bool) {
	if len(args) != 3 || args[1] != unmountCommand {
		return 0, false
	}
	return volume.UnmountNow(args[2]), true
}
