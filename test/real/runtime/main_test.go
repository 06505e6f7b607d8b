//go:build real

// Package runtime tests, on a real container runtime, images, registries and credentials, what containers find inside, and a container runtime that hangs.
package runtime

import (
	"testing"

	"berth/test/real/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
