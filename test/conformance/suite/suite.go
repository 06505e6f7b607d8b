// Package suite names what is built of Kubernetes' tests, so that go.mod lists all that they need.
package suite

import _ "k8s.io/kubernetes/test/e2e_node" // `go test -c` makes a program of its tests
