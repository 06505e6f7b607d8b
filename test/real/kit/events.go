//go:build real

package kit

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api/client"
)

// Events returns the events of a pod.
func (n *Node) Events(p v1.Pod) []v1.Event {
	n.T.Helper()
	c, err := client.New(n.Root)
	if err != nil {
		n.T.Fatal(err)
	}
	defer c.Close()
	list, err := c.Events(n.T.Context(), client.EventFilter{Namespace: p.Namespace, Pod: p.Name, UID: p.UID})
	if err != nil {
		n.T.Fatal(err)
	}
	return list.Items
}

// WaitEvent waits until that happened to a pod.
func (n *Node) WaitEvent(p v1.Pod, reason string) v1.Event {
	n.T.Helper()
	var found v1.Event
	n.Wait("event "+reason+" of pod "+p.Name, 10*time.Second, func() string {
		var others []string
		for _, e := range n.Events(p) {
			if e.Reason == reason {
				found = e
				return ""
			}
			others = append(others, e.Reason)
		}
		return fmt.Sprintf("it: there are %v", others)
	})
	return found
}
