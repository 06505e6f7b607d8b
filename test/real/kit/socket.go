//go:build real

package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"berth/internal/api"
)

// AgentPage reads a page of the agent's socket.
func (n *Node) AgentPage(path string) ([]byte, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", api.SocketPath(n.Root))
	}
	c := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: 20 * time.Second}
	r, err := c.Get("http://berth" + path)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, r.Status, body)
	}
	return body, err
}

// PodUsage returns the usage of a pod, as the agent reports it.
func (n *Node) PodUsage(name string) (stats.PodStats, error) {
	body, err := n.AgentPage("/stats/summary")
	if err != nil {
		return stats.PodStats{}, err
	}
	var s stats.Summary
	if err := json.Unmarshal(body, &s); err != nil {
		return stats.PodStats{}, err
	}
	for _, p := range s.Pods {
		if p.PodRef.Name == name+"-"+NodeName {
			return p, nil
		}
	}
	return stats.PodStats{}, fmt.Errorf("there is no pod %s in %s", name, body)
}
