//go:build real

package kit

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"berth/test/netns"
)

// Network is all that a node sees of the network.
type Network struct{ *netns.Namespace }

// NewNetwork makes a network namespace that forwards packets. It is removed when the test ends.
func NewNetwork(t *testing.T, name string) Network {
	t.Helper()
	ns, err := netns.New(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ns.Remove(); err != nil {
			t.Error(err)
		}
	})
	for file, needed := range map[string]bool{
		"/proc/sys/net/ipv4/ip_forward":                true,
		"/proc/sys/net/bridge/bridge-nf-call-iptables": false, // not on every machine
	} {
		err := ns.Inside(func() error { return os.WriteFile(file, []byte("1"), 0) })
		if err != nil && needed {
			t.Fatal(err)
		}
	}
	return Network{ns}
}

func (n Network) MustRun(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := n.Run(name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (n Network) ListenLoopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := n.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Get asks a server over HTTP, from within.
func (n Network) Get(address, path string) (string, error) {
	client := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: n.Dial}}
	answer, err := client.Get("http://" + address + path)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s: %s", answer.Status, body)
	}
	return string(body), err
}
