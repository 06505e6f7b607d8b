// Package netns makes network namespaces, and does things inside of them: no link,
// address or port in one is seen elsewhere. It needs root.
package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Namespace is one network namespace.
type Namespace struct {
	name string // as `ip netns` knows it
	path string
	file *os.File
}

// New makes a namespace in which nothing but loopback is up.
func New(name string) (*Namespace, error) {
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make network namespace %s: %w: %s", name, err, out)
	}
	ns, err := Open(name)
	if err != nil {
		return nil, err
	}
	if _, err := ns.Run("ip", "link", "set", "lo", "up"); err != nil {
		return nil, errors.Join(err, ns.Remove())
	}
	return ns, nil
}

// Open returns a namespace that is there, or an error that is [os.ErrNotExist].
func Open(name string) (*Namespace, error) { return At(filepath.Join("/run/netns", name)) }

// At returns the namespace of a file, which may be /proc/PID/ns/net. A namespace that `ip netns` does
// not know can be worked in, but not removed.
func At(path string) (*Namespace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	return &Namespace{name: filepath.Base(path), path: path, file: file}, nil
}

// Name returns the name of the namespace for `ip netns`.
func (ns *Namespace) Name() string { return ns.name }

// Path is where the namespace is mounted.
func (ns *Namespace) Path() string { return ns.path }

// Processes returns the processes that are in the namespace.
func (ns *Namespace) Processes() ([]int, error) {
	out, err := exec.Command("ip", "netns", "pids", ns.name).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("list the processes in network namespace %s: %w: %s", ns.name, err, out)
	}
	var pids []int
	for word := range strings.FieldsSeq(string(out)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("list the processes in network namespace %s: %w", ns.name, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Close closes the file of the namespace. The namespace stays.
func (ns *Namespace) Close() { _ = ns.file.Close() }

// Remove removes the name. Processes that still run in the namespace keep it alive.
func (ns *Namespace) Remove() error {
	ns.Close()
	if out, err := exec.Command("ip", "netns", "delete", ns.name).CombinedOutput(); err != nil {
		return fmt.Errorf("remove network namespace %s: %w: %s", ns.name, err, out)
	}
	return nil
}

// Inside calls f on a thread that is in the namespace. What f starts is in it, too;
// what f leaves to other goroutines is not.
func (ns *Namespace) Inside(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			done <- err
			return // and the thread with us, since it is locked
		}
		defer home.Close()
		if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter network namespace %s: %w", ns.name, err)
			return
		}
		err = f()
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back == nil {
			runtime.UnlockOSThread() // it is as it was, so others may have it
		}
		done <- err
	}()
	return <-done
}

// Run runs a command inside, and returns what it printed.
func (ns *Namespace) Run(name string, args ...string) (string, error) {
	var out []byte
	err := ns.Inside(func() (err error) {
		out, err = exec.Command(name, args...).CombinedOutput()
		return err
	})
	if err != nil {
		return "", fmt.Errorf("%s %v: %w: %s", name, args, err, out)
	}
	return string(out), nil
}

// Dial connects from inside to a numeric address. It has the signature that HTTP
// transports and client-go ask for.
func (ns *Namespace) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := ns.Inside(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen listens inside.
func (ns *Namespace) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	var listener net.Listener
	err := ns.Inside(func() (err error) {
		listener, err = (&net.ListenConfig{}).Listen(ctx, network, address)
		return err
	})
	return listener, err
}
