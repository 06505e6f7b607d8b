package cert

import (
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// The first handler logs. The second sleeps when errors come fast, by the time since the last
	// one in the whole program: in a synctest bubble that can be twenty years.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	m.Run()
}
