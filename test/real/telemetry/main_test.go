//go:build real

// Package telemetry tests, on a real container runtime, usage, metrics, events, log links and traces.
package telemetry

import (
	"testing"

	"berth/test/real/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
