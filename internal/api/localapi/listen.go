package localapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxSocketPath is how long the kernel lets the path of a socket be.
	maxSocketPath = 107
	socketMode    = 0o660
	dialTimeout   = time.Second
)

// Listen opens the socket at path. Only root and the members of the group, if
// the system has one of that name, may talk to it. A socket on which no process answers is left
// from before and is replaced; if a process answers, that is an error.
// Closing the listener removes the socket.
//
// Two processes that start at the same moment could both find the old socket
// dead: the root directory is to be locked before.
func Listen(path, group string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("listen on %s: the path has %d bytes and a socket's may have %d: choose a shorter --root-dir", path, len(path), maxSocketPath)
	}
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	config := net.ListenConfig{Control: private}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err // it names the path
	}
	if err := grant(path, group); err != nil {
		return nil, errors.Join(fmt.Errorf("grant access to %s: %w", path, err), l.Close())
	}
	return l, nil
}

// private takes all rights of others from a socket before it has a path, so
// that there is no moment at which everybody may connect.
func private(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); cerr != nil {
		return cerr
	}
	return err
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("something that is not a socket is in the way: move it away")
	}
	conn, err := net.DialTimeout("unix", path, dialTimeout)
	if err == nil {
		_ = conn.Close()
	}
	// A full queue of connections, or no answer in time, means that a process listens, too.
	if !errors.Is(err, unix.ECONNREFUSED) {
		return errors.New("another process answers there: is berth running already? Stop it, or give another --root-dir")
	}
	return os.Remove(path)
}

func grant(path, group string) error {
	if os.Geteuid() == 0 {
		gid, err := groupID(group)
		if err != nil {
			return err
		}
		if err := os.Chown(path, 0, gid); err != nil {
			return err
		}
	}
	return os.Chmod(path, socketMode)
}

// groupID returns the ID of the group, or 0 if there is no such group.
func groupID(name string) (int, error) {
	g, err := user.LookupGroup(name)
	if unknown := user.UnknownGroupError(""); errors.As(err, &unknown) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look up group %q: %w", name, err)
	}
	return strconv.Atoi(g.Gid)
}
