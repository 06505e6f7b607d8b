// Package systemd makes, changes and removes slices by calls to systemd over D-Bus.
//
// Each operation has a connection of its own, so that nothing is lost when systemd is executed anew (daemon-reexec) or the
// bus restarts: the operation fails, and its caller repeats it. Every operation is idempotent and ends after a timeout.
//
// The calls are few, and are made with godbus, which the watcher of shutdowns uses, too: coreos/go-systemd would add
// a goroutine and a connection that last as long as the agent.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

// Names of systemd on D-Bus.
const (
	busName     = "org.freedesktop.systemd1"
	objectPath  = dbus.ObjectPath("/org/freedesktop/systemd1")
	iface       = "org.freedesktop.systemd1.Manager"
	jobRemoved  = "JobRemoved"
	unitExists  = "org.freedesktop.systemd1.UnitExists"
	noSuchUnit  = "org.freedesktop.systemd1.NoSuchUnit"
	notLoaded   = "org.freedesktop.systemd1.UnitNotLoaded"
	replaceJobs = "replace" // a queued job of the unit is replaced by the new one
	jobDone     = "done"
)

const (
	operationTimeout = 30 * time.Second
	// parallelOperations bounds the connections to systemd.
	parallelOperations = 4
	// privateSocket is systemd's own socket, which answers root even without a bus.
	privateSocket = "unix:path=/run/systemd/private"
)

// Property is a setting of a slice, such as MemoryMax. The type of its value is that of the property on D-Bus.
type Property struct {
	Name  string
	Value any
}

// Config configures a Manager.
type Config struct {
	// Dial connects to systemd. Nil: to the one of this machine.
	Dial func(ctx context.Context, signals dbus.SignalHandler) (*dbus.Conn, error)
	// Timeout bounds one operation; 0: 30 s.
	Timeout time.Duration
}

// Manager makes, changes and removes slices.
type Manager struct {
	cfg   Config
	slots chan struct{} // holds a value for each operation that runs

	mu      sync.Mutex
	version int // of systemd; 0: not read yet
}

// New returns a manager. It does not connect.
func New(c Config) *Manager {
	if c.Dial == nil {
		c.Dial = dialMachine
	}
	if c.Timeout == 0 {
		c.Timeout = operationTimeout
	}
	return &Manager{cfg: c, slots: make(chan struct{}, parallelOperations)}
}

// Runs returns an error unless systemd is the init of this machine.
func Runs() error {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return fmt.Errorf("systemd is not the init of this machine: %w", err)
	}
	return nil
}

// dialMachine connects over the system bus, or directly if the bus is not there.
func dialMachine(ctx context.Context, signals dbus.SignalHandler) (*dbus.Conn, error) {
	conn, err := dbus.ConnectSystemBus(dbus.WithContext(ctx), dbus.WithSignalHandler(signals))
	if err == nil {
		err = conn.AddMatchSignalContext(ctx, dbus.WithMatchObjectPath(objectPath), dbus.WithMatchInterface(iface), dbus.WithMatchMember(jobRemoved))
		if err == nil {
			return conn, nil
		}
		_ = conn.Close()
	}
	private, direct := dbus.Dial(privateSocket, dbus.WithContext(ctx), dbus.WithSignalHandler(signals))
	if direct == nil {
		if direct = private.Auth(nil); direct == nil {
			return private, nil
		}
		_ = private.Close()
	}
	return nil, errors.Join(err, direct)
}

// Version returns the version of systemd, such as 252.
func (m *Manager) Version(ctx context.Context) (int, error) {
	m.mu.Lock()
	known := m.version
	m.mu.Unlock()
	if known != 0 {
		return known, nil
	}
	var version int
	err := m.do(ctx, "read the version", func(s *session) error {
		var text dbus.Variant
		err := s.conn.Object(busName, objectPath).CallWithContext(s.ctx, "org.freedesktop.DBus.Properties.Get", 0, iface, "Version").Store(&text)
		if err != nil {
			return err
		}
		version, err = parseVersion(text.String())
		return err
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version = version
	return version, err
}

// parseVersion returns the first number of a text such as "v252.39-1~deb12u1" or "252 (252-4)".
func parseVersion(text string) (int, error) {
	digits := strings.TrimLeft(text, `"v`)
	if i := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		digits = digits[:i]
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%s is no version", text)
	}
	return n, nil
}

// Start makes a slice with properties, or sets the properties of a slice that exists. The properties last until the
// machine restarts.
func (m *Manager) Start(ctx context.Context, slice string, properties []Property) error {
	fixed := []Property{
		{"Description", "Kubernetes cgroup " + strings.TrimSuffix(slice, ".slice")},
		{"DefaultDependencies", false}, // pods are ended by the agent, not by the order of a shutdown
		{"CPUAccounting", true},
		{"IOAccounting", true},
		{"MemoryAccounting", true},
		{"TasksAccounting", true},
	}
	if parent := parentOf(slice); parent != "" {
		fixed = append(fixed, Property{"Wants", []string{parent}})
	}
	return m.do(ctx, "start "+slice, func(s *session) error {
		err := s.job("StartTransientUnit", slice, replaceJobs, onBus(append(fixed, properties...)), []auxiliaryUnit{})
		if !isError(err, unitExists) {
			return err
		}
		if len(properties) == 0 {
			return nil
		}
		return s.call("SetUnitProperties", slice, true, onBus(properties)) // true: not after the next boot
	})
}

// Set sets properties of a slice that exists.
func (m *Manager) Set(ctx context.Context, slice string, properties []Property) error {
	return m.do(ctx, "set properties of "+slice, func(s *session) error { return s.call("SetUnitProperties", slice, true, onBus(properties)) })
}

// Stop removes a slice, and kills the processes in it. A slice that does not exist is no error.
func (m *Manager) Stop(ctx context.Context, slice string) error {
	return m.do(ctx, "stop "+slice, func(s *session) error {
		err := s.job("StopUnit", slice, replaceJobs)
		if isError(err, noSuchUnit) || isError(err, notLoaded) {
			return nil
		}
		if err == nil {
			_ = s.call("ResetFailedUnit", slice) // a slice that did not fail is not loaded any more
		}
		return err
	})
}

// parentOf returns the slice above a slice, or "" if that is the root slice, which always exists.
func parentOf(slice string) string {
	i := strings.LastIndex(slice, "-")
	if i <= 0 {
		return ""
	}
	return slice[:i] + path.Ext(slice)
}

func isError(err error, name string) bool {
	var answer dbus.Error
	return errors.As(err, &answer) && answer.Name == name
}

// busProperty and auxiliaryUnit are the arguments of StartTransientUnit on D-Bus.
type (
	busProperty struct {
		Name  string
		Value dbus.Variant
	}
	auxiliaryUnit struct {
		Name       string
		Properties []busProperty
	}
)

func onBus(properties []Property) []busProperty {
	out := make([]busProperty, len(properties))
	for i, p := range properties {
		out[i] = busProperty{p.Name, dbus.MakeVariant(p.Value)}
	}
	return out
}
