package app

import "berth/internal/pods/volume"

// unmountCommand is the hidden command of the process that unmounts a volume for the agent. It is a
// process of its own, because a process that waits for a file server can be killed, and a thread
// can't.
const unmountCommand = "unmount-for-agent"

// newMounter returns the mount operations of this machine for volumes.
func newMounter() volume.Kernel {
	return volume.Kernel{Unmounter: []string{"/proc/self/exe", unmountCommand}}
}

// UnmountRequested unmounts a path if the arguments of this process are those of unmountCommand.
func UnmountRequested(args []string) (code int, asked bool) {
	if len(args) != 3 || args[1] != unmountCommand {
		return 0, false
	}
	return volume.UnmountNow(args[2]), true
}
