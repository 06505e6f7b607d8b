//go:build real

// Package host tests, on a real container runtime, several agents on one machine, and what berth down leaves of one.
package host

import (
	"testing"

	"berth/test/real/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
