//go:build real && !machine

package app

// How much of TestHostilePods is played. The emulator of test/machine plays less, see hostile_machine_test.go.
const (
	// allTricks has every trick played, and pods pretend to be the container runtime.
	allTricks = true
	// namesInAFolder is how many names a pod makes in one folder: a list of them takes more memory than
	// the agent has.
	namesInAFolder = 2_000_000
)
