//go:build real

// Package api tests, on a real container runtime, streams into containers (exec, cp, port-forward, logs) and their cost to the agent.
package api

import (
	"testing"

	"berth/test/real/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
