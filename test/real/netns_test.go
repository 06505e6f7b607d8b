//go:build real

package real

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

// network is all that a node sees of the network.
type network struct{ *netns.Namespace }

func newNetwork(t *testing.T, name string) network {
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
	return network{ns}
}

func (n network) mustRun(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := n.Run(name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (n network) listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := n.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// get asks a server over HTTP, from within.
func (n network) get(address, path string) (string, error) {
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
