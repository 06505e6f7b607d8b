//go:build real

// Package core tests, in a real cluster, admission, deletion, and pods of deployments and jobs.
package core

import (
	"testing"

	"berth/test/cluster/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
