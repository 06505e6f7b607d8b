package sdnotify

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// systemd returns a channel of the messages that the process sends to its service manager.
func systemd(t *testing.T, watchdog time.Duration) <-chan string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	t.Setenv("WATCHDOG_USEC", strconv.FormatInt(watchdog.Microseconds(), 10))
	if watchdog == 0 {
		t.Setenv("WATCHDOG_USEC", "")
	}
	messages := make(chan string, 1000)
	go func() {
		buffer := make([]byte, 100)
		for {
			n, err := socket.Read(buffer)
			if err != nil {
				return
			}
			messages <- string(buffer[:n])
		}
	}()
	return messages
}

func start(t *testing.T, alive func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		(&Notifier{Alive: alive, Log: slog.New(slog.DiscardHandler)}).Run(ctx)
	}()
	return func() { cancel(); <-done }
}

func expect(t *testing.T, messages <-chan string, want string) {
	t.Helper()
	select {
	case got := <-messages:
		if got != want {
			t.Fatalf("systemd got %q, want %q", got, want)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("systemd did not get %q", want)
	}
}

func TestReadyAliveStopping(t *testing.T) {
	messages := systemd(t, 20*time.Millisecond)
	var dead atomic.Bool
	asked := make(chan struct{}, 1000)
	stop := start(t, func(context.Context) error {
		asked <- struct{}{}
		if dead.Load() {
			return errors.New("hangs")
		}
		return nil
	})
	expect(t, messages, "READY=1")
	expect(t, messages, "WATCHDOG=1")
	expect(t, messages, "WATCHDOG=1")
	dead.Store(true)
	drain(asked)
	for range 3 { // the first may have been asked while the agent was alive
		<-asked
	}
	drain(messages)
	for range 3 {
		<-asked
	}
	select {
	case got := <-messages:
		t.Fatalf("an agent that hangs says %q", got)
	default:
	}
	dead.Store(false)
	expect(t, messages, "WATCHDOG=1")
	stop()
	for message := range messages {
		if message == "STOPPING=1" {
			return
		}
	}
}

func drain[T any](c <-chan T) {
	for {
		select {
		case <-c:
		default:
			return
		}
	}
}

func TestWithoutAWatchdog(t *testing.T) {
	messages := systemd(t, 0)
	stop := start(t, func(context.Context) error { t.Error("the agent is asked, and nobody wants to know"); return nil })
	expect(t, messages, "READY=1")
	stop()
	expect(t, messages, "STOPPING=1")
}

func TestOutsideOfAUnit(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	start(t, func(context.Context) error { t.Error("the agent is asked, and nobody wants to know"); return nil })()
}
