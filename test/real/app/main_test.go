//go:build real

// Package app tests, on a real container runtime, the agent as a whole: configurations it refuses, disks that are full or read-only, and pods that attack it.
package app

import (
	"testing"

	"berth/test/real/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
