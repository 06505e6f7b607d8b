//go:build real

// Package cluster tests, in a real cluster, the Node, its certificates and its mirror pods, and outages of the control plane.
package cluster

import (
	"testing"

	"berth/test/cluster/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
