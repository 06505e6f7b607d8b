//go:build real

// Package intake tests, in a real cluster, tokens, and the objects that the pods of a node refer to.
package intake

import (
	"testing"

	"berth/test/cluster/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
