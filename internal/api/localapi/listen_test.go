package localapi

import (
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestListen(t *testing.T) {
	t.Run("makes a socket for root and the group only", func(t *testing.T) {
		path := socketPath(t)
		old := syscall.Umask(0)
		l, err := Listen(path, "no such group")
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := fs.ModeSocket | 0o660; info.Mode() != want {
			t.Errorf("mode is %v, want %v", info.Mode(), want)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the socket is still there after it was closed: %v", err)
		}
	})
	t.Run("replaces a socket that nobody answers on", func(t *testing.T) {
		path := socketPath(t)
		dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		dead.SetUnlinkOnClose(false)
		_ = dead.Close()
		l, err := Listen(path, "")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	})
	t.Run("leaves a socket alone that somebody answers on", func(t *testing.T) {
		path := socketPath(t)
		first, err := Listen(path, "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = first.Close() }()
		if _, err := Listen(path, ""); err == nil || !strings.Contains(err.Error(), "another process answers") {
			t.Errorf("got %v, want that another process answers", err)
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatalf("the first does not answer any more: %v", err)
		}
		_ = conn.Close()
	})
	t.Run("leaves a file alone that is not a socket", func(t *testing.T) {
		path := socketPath(t)
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Listen(path, ""); err == nil || !strings.Contains(err.Error(), "not a socket") {
			t.Errorf("got %v, want that it is not a socket", err)
		}
		if b, err := os.ReadFile(path); string(b) != "mine" {
			t.Errorf("the file has %q (%v), want it as it was", b, err)
		}
	})
	t.Run("says that a path is too long", func(t *testing.T) {
		if _, err := Listen("/"+strings.Repeat("x", 107), ""); err == nil || !strings.Contains(err.Error(), "shorter --root-dir") {
			t.Errorf("got %v, want what to do", err)
		}
	})
}

func TestGroupID(t *testing.T) {
	if id, err := groupID("no such group"); id != 0 || err != nil {
		t.Errorf("of no such group: got %d (%v), want root's", id, err)
	}
	if id, err := groupID("daemon"); id == 0 || err != nil {
		t.Errorf("of daemon: got %d (%v), want its id", id, err)
	}
}
