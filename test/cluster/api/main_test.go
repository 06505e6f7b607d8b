//go:build real

// Package api tests, in a real cluster, the node API behind kubectl, and what kubectl shows.
package api

import (
	"testing"

	"berth/test/cluster/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
