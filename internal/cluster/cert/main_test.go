package cert

import (
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// The first handler logs. The second slows down whoever has many errors, by the
	// time since the last one in the whole program: in a test with a clock of its own
	// that can be twenty years.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	m.Run()
}
