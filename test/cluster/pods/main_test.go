//go:build real

// Package pods tests, in a real cluster, volumes, CSI drivers and mounts that hang.
package pods

import (
	"testing"

	"berth/test/cluster/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
