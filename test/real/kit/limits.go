//go:build real

package kit

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// CrashLoopDelay is the back-off between two restarts.
func CrashLoopDelay(seconds int) time.Duration { return time.Duration(seconds) * time.Second }

// GraceMargin is how much later than the end of its grace a container may be
// killed: the runtime counts in whole seconds.
const GraceMargin = 2 * time.Second

// ExecHook is a hook that runs the workload in the container.
func ExecHook(args ...string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: append([]string{"/workload"}, args...)}}
}

// What berth may add to the time that the removal of a pod takes the runtime.
const (
	// VanishDelay is how long the agent waits after a file vanished before it
	// believes that: see internal/intake/source/schedule.go.
	VanishDelay = 200 * time.Millisecond
	// OverheadLimit is the time that the agent itself may add.
	OverheadLimit = 150 * time.Millisecond
	// LoadAllowance is the time that other load of the machine may add to that.
	LoadAllowance = 150 * time.Millisecond
)
