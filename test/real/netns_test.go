//go:build real

package real

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// netns is a network namespace: no link, rule or port in it is seen elsewhere.
type netns struct {
	path string
	file *os.File
}

func newNetns(t *testing.T, name string) *netns {
	t.Helper()
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		t.Fatalf("make network namespace: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "netns", "delete", name).CombinedOutput(); err != nil {
			t.Errorf("remove network namespace: %v: %s", err, out)
		}
	})
	path := filepath.Join("/run/netns", name)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	ns := &netns{path: path, file: file}
	ns.mustRun(t, "ip", "link", "set", "lo", "up")
	for file, needed := range map[string]bool{
		"/proc/sys/net/ipv4/ip_forward":                true,
		"/proc/sys/net/bridge/bridge-nf-call-iptables": false, // not on every machine
	} {
		err := ns.inside(func() error { return os.WriteFile(file, []byte("1"), 0) })
		if err != nil && needed {
			t.Fatal(err)
		}
	}
	return ns
}

// inside calls f on a thread that is in the namespace. What f starts is in it, too;
// what f leaves to other goroutines is not.
func (ns *netns) inside(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter %s: %w", ns.path, err)
			return
		}
		done <- f()
	}()
	return <-done
}

func (ns *netns) mustRun(t *testing.T, name string, args ...string) string {
	t.Helper()
	var out []byte
	err := ns.inside(func() (err error) {
		out, err = exec.Command(name, args...).CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

func (ns *netns) listen(t *testing.T) net.Listener {
	t.Helper()
	var l net.Listener
	err := ns.inside(func() (err error) {
		l, err = net.Listen("tcp4", "127.0.0.1:0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// get asks a server over HTTP, from within the namespace.
func (ns *netns) get(address, path string) (string, error) {
	client := http.Client{
		Timeout: 3 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
				err = ns.inside(func() (err error) {
					conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
					return err
				})
				return conn, err
			},
		},
	}
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
