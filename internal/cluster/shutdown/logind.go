package shutdown

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// The names of logind and systemd on the system bus.
const (
	loginName   = "org.freedesktop.login1"
	loginPath   = dbus.ObjectPath("/org/freedesktop/login1")
	loginIface  = "org.freedesktop.login1.Manager"
	loginSignal = "PrepareForShutdown"
	loginUnit   = "systemd-logind.service"

	systemdName  = "org.freedesktop.systemd1"
	systemdPath  = dbus.ObjectPath("/org/freedesktop/systemd1")
	systemdIface = "org.freedesktop.systemd1.Manager"
)

// callTimeout bounds one call on the bus.
const callTimeout = 5 * time.Second

// bus implements Logind by the system bus.
type bus struct {
	conn    *dbus.Conn
	signals signals
}

// ConnectLogind connects to logind on the system bus.
func ConnectLogind(ctx context.Context) (Logind, error) {
	return connect(ctx, dbus.ConnectSystemBus)
}

func connect(ctx context.Context, dial func(...dbus.ConnOption) (*dbus.Conn, error)) (Logind, error) {
	b := &bus{signals: make(signals, 1)}
	var err error
	if b.conn, err = dial(dbus.WithContext(ctx), dbus.WithSignalHandler(b.signals)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// From here on no signal is missed: the state that is read after this includes all
	// earlier changes.
	err = b.conn.AddMatchSignalContext(ctx,
		dbus.WithMatchObjectPath(loginPath), dbus.WithMatchInterface(loginIface), dbus.WithMatchMember(loginSignal))
	if err != nil {
		_ = b.conn.Close()
		return nil, fmt.Errorf("ask for signals: %w", err)
	}
	return b, nil
}

// signals holds the value of the newest PrepareForShutdown signal that was not received yet.
type signals chan bool

// DeliverSignal implements dbus.SignalHandler. The goroutine that reads from the bus calls it.
func (s signals) DeliverSignal(iface, name string, signal *dbus.Signal) {
	if iface != loginIface || name != loginSignal || len(signal.Body) != 1 {
		return
	}
	preparing, ok := signal.Body[0].(bool)
	if !ok {
		return
	}
	select {
	case <-s: // an older value that was not received
	default:
	}
	s <- preparing
}

func (b *bus) Changed() <-chan bool { return b.signals }

func (b *bus) Lost() <-chan struct{} { return b.conn.Context().Done() }

func (b *bus) Close() error { return b.conn.Close() }

// call makes a call and stores its results.
func (b *bus) call(ctx context.Context, name string, path dbus.ObjectPath, method string, args []any, into ...any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := b.conn.Object(name, path).CallWithContext(ctx, method, 0, args...).Store(into...); err != nil {
		return fmt.Errorf("call %s: %w", method, err)
	}
	return nil
}

func (b *bus) property(ctx context.Context, name string, into any) error {
	var value dbus.Variant
	if err := b.call(ctx, loginName, loginPath, "org.freedesktop.DBus.Properties.Get", []any{loginIface, name}, &value); err != nil {
		return fmt.Errorf("read %s of logind: %w", name, err)
	}
	if err := value.Store(into); err != nil {
		return fmt.Errorf("read %s of logind: %w", name, err)
	}
	return nil
}

func (b *bus) Delay(ctx context.Context) (time.Duration, error) {
	var micros uint64
	if err := b.property(ctx, "InhibitDelayMaxUSec", &micros); err != nil {
		return 0, err
	}
	return time.Duration(min(micros, math.MaxInt64/1000)) * time.Microsecond, nil // infinity is more than fits
}

func (b *bus) Preparing(ctx context.Context) (preparing bool, err error) {
	return preparing, b.property(ctx, "PreparingForShutdown", &preparing)
}

func (b *bus) Reload(ctx context.Context) error {
	return b.call(ctx, systemdName, systemdPath, systemdIface+".KillUnit", []any{loginUnit, "main", int32(unix.SIGHUP)})
}

func (b *bus) Inhibit(ctx context.Context, why string) (io.Closer, error) {
	var fd dbus.UnixFD
	if err := b.call(ctx, loginName, loginPath, loginIface+".Inhibit", []any{"shutdown", "berth", why, "delay"}, &fd); err != nil {
		return nil, err
	}
	unix.CloseOnExec(int(fd)) // a runtime that the agent starts must not inherit the lock
	return os.NewFile(uintptr(fd), "shutdown inhibitor"), nil
}
