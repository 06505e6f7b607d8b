//go:build real

// Package runtime tests, in a real cluster, credential providers, and a container runtime that hangs.
package runtime

import (
	"testing"

	"berth/test/cluster/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
