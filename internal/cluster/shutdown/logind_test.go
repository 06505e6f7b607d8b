package shutdown

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"berth/internal/lib/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// system is a fake system bus with logind and systemd on it.
type system struct {
	mu     sync.Mutex
	asked  []string
	values map[string]any
	ours   *os.File // our end of the lock that was given away
	theirs *os.File // the other, for as long as it is not received
}

func (s *system) set(name string, value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values[name] = value; value == nil {
		delete(s.values, name)
	}
}

func (s *system) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, fmt.Sprintf(format, args...))
}

func (s *system) Hello() (string, *dbus.Error)     { return ":1.7", nil }
func (s *system) AddMatch(rule string) *dbus.Error { s.note("match %s", rule); return nil }

func (s *system) Get(iface, name string) (dbus.Variant, *dbus.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.values[name]
	if !ok || iface != loginIface {
		return dbus.Variant{}, dbus.MakeFailedError(fmt.Errorf("no property %s", name))
	}
	return dbus.MakeVariant(value), nil
}

func (s *system) KillUnit(unit, who string, signal int32) *dbus.Error {
	s.note("kill %s %s %d", unit, who, signal)
	return nil
}

func (s *system) Inhibit(what, who, _, mode string) (dbus.UnixFD, *dbus.Error) {
	s.note("inhibit %s %s %s", what, who, mode)
	ours, theirs, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ours, s.theirs = ours, theirs
	return dbus.UnixFD(theirs.Fd()), nil
}

// onBus connects a system and a Logind by a bus that passes on all that it is given.
func onBus(t *testing.T, s *system) (service *dbus.Conn, logind Logind) {
	t.Helper()
	dir, err := os.MkdirTemp("", "berth") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "bus")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	accept := make(chan *net.UnixConn, 2)
	go func() {
		defer close(accept)
		for range 2 {
			c, err := listener.AcceptUnix()
			if err != nil || admit(c) != nil {
				return
			}
			accept <- c
		}
	}()
	service, err = dbus.Dial("unix:path=" + path)
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Auth(nil); err != nil {
		t.Fatal(err)
	}
	for iface, at := range map[string]dbus.ObjectPath{
		"org.freedesktop.DBus": "/org/freedesktop/DBus", "org.freedesktop.DBus.Properties": loginPath, loginIface: loginPath, systemdIface: systemdPath,
	} {
		if err := service.Export(s, at, iface); err != nil {
			t.Fatal(err)
		}
	}
	var passing sync.WaitGroup
	passing.Go(func() {
		one, other := <-accept, <-accept
		passing.Go(func() { pass(one, other) })
		pass(other, one)
	})
	t.Cleanup(func() {
		_ = listener.Close()
		_ = service.Close()
		passing.Wait()
	})
	logind, err = connect(t.Context(), func(o ...dbus.ConnOption) (*dbus.Conn, error) { return dbus.Connect("unix:path="+path, o...) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = logind.Close() })
	return service, logind
}

// admit authenticates every client of the bus, and agrees to pass file descriptors.
func admit(c net.Conn) error {
	var line []byte
	one := make([]byte, 1)
	for {
		if _, err := io.ReadFull(c, one); err != nil {
			return err
		}
		if line = append(line, one[0]); one[0] != '\n' {
			continue
		}
		var answer string
		switch text := strings.Trim(string(line), "\x00\r\n"); {
		case text == "AUTH":
			answer = "REJECTED EXTERNAL"
		case strings.HasPrefix(text, "AUTH EXTERNAL"):
			answer = "OK 0123456789abcdef"
		case text == "NEGOTIATE_UNIX_FD":
			answer = "AGREE_UNIX_FD"
		case text == "BEGIN":
			return nil
		default:
			return fmt.Errorf("not understood: %q", text)
		}
		line = nil
		if _, err := io.WriteString(c, answer+"\r\n"); err != nil {
			return err
		}
	}
}

// pass copies messages with their file descriptors until a connection closes.
func pass(from, to *net.UnixConn) {
	if from == nil || to == nil {
		return
	}
	defer func() { _, _ = from.Close(), to.Close() }()
	data, control := make([]byte, 64<<10), make([]byte, 4<<10)
	for {
		n, controlled, _, _, err := from.ReadMsgUnix(data, control)
		if err != nil || n == 0 {
			return
		}
		_, _, err = to.WriteMsgUnix(data[:n], control[:controlled], nil)
		messages, _ := unix.ParseSocketControlMessage(control[:controlled])
		for _, m := range messages {
			fds, _ := unix.ParseUnixRights(&m)
			for _, fd := range fds {
				_ = unix.Close(fd)
			}
		}
		if err != nil {
			return
		}
	}
}

func TestLogindOverTheBus(t *testing.T) {
	s := &system{values: map[string]any{"InhibitDelayMaxUSec": uint64(5_000_000), "PreparingForShutdown": false}}
	service, logind := onBus(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()

	if d, err := logind.Delay(ctx); err != nil || d != 5*time.Second {
		t.Errorf("delay: got %s, %v", d, err)
	}
	s.set("InhibitDelayMaxUSec", uint64(math.MaxUint64))
	if d, err := logind.Delay(ctx); err != nil || d < 100*365*24*time.Hour {
		t.Errorf("no limit: got %s, %v", d, err)
	}
	if preparing, err := logind.Preparing(ctx); err != nil || preparing {
		t.Errorf("preparing: got %t, %v", preparing, err)
	}
	if err := logind.Reload(ctx); err != nil {
		t.Error(err)
	}

	lock, err := logind.Inhibit(ctx, "a test")
	if err != nil {
		t.Fatal(err)
	}
	file, ok := lock.(*os.File)
	if !ok {
		t.Fatalf("the lock is a %T", lock)
	}
	flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("whoever we start holds the lock, too: %d, %v", flags, err)
	}

	for _, want := range []bool{true, false} {
		if err := service.Emit(loginPath, loginIface+"."+loginSignal, want); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-logind.Changed():
			if got != want {
				t.Errorf("got %t, want %t", got, want)
			}
		case <-ctx.Done():
			t.Fatal("the signal does not arrive")
		}
	}
	want := []string{
		"match type='signal',path='/org/freedesktop/login1',interface='org.freedesktop.login1.Manager',member='PrepareForShutdown'",
		"kill systemd-logind.service main 1", "inhibit shutdown berth delay",
	}
	s.mu.Lock()
	got := strings.Join(s.asked, "\n")
	s.mu.Unlock()
	if got != strings.Join(want, "\n") {
		t.Errorf("asked:\n%s", got)
	}

	s.set("PreparingForShutdown", nil)
	if _, err := logind.Preparing(ctx); err == nil || !strings.Contains(err.Error(), "PreparingForShutdown") {
		t.Errorf("got %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
	_ = s.theirs.Close()
	defer func() { _ = s.ours.Close() }()
	_ = s.ours.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := s.ours.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the lock is still held: %v", err)
	}

	_ = service.Close()
	select {
	case <-logind.Lost():
	case <-ctx.Done():
		t.Error("the end of the connection is not noticed")
	}
}

func TestTheNewestSignalCounts(t *testing.T) {
	s := make(signals, 1)
	say := func(iface string, body ...any) { s.DeliverSignal(iface, loginSignal, &dbus.Signal{Body: body}) }
	say(loginIface, true)
	say(loginIface, false)
	say("org.example.Other", true)
	say(loginIface)
	say(loginIface, "yes")
	if got := <-s; got || len(s) != 0 {
		t.Errorf("got %t, and %d more", got, len(s))
	}
}

func TestNoBus(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
	if _, err := ConnectLogind(t.Context()); err == nil {
		t.Error("connected to nothing")
	}
}
