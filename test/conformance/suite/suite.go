// Package suite names what is built of Kubernetes' tests, so that go.mod lists all that they need.
package suite

// `go test -c` makes programs of their tests.
import (
	_ "k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/e2e_node"
)
