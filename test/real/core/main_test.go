//go:build real

// Package core tests, on a real container runtime, the lives of pods on the container runtime: start, restart, edit, stop, removal, and crashes of the agent in the middle of each.
package core

import (
	"testing"

	"berth/test/real/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
