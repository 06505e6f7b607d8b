//go:build real

// Package pods tests, on a real container runtime, volumes, CSI drivers, cgroups, security settings, hooks and probes.
package pods

import (
	"testing"

	"berth/test/real/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
