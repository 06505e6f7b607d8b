//go:build real

// Package cli tests, on a real container runtime, run --once, diff, doctor, and what the commands that show something print.
package cli

import (
	"testing"

	"berth/test/real/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
