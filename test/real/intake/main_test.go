//go:build real

// Package intake tests, on a real container runtime, manifests in a folder and behind a URL, what is refused of them, and the objects that pods refer to.
package intake

import (
	"testing"

	"berth/test/real/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
