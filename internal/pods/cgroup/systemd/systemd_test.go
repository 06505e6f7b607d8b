package systemd

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godbus/dbus/v5"

	"berth/internal/lib/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// fakeSystemd answers calls as systemd does, at the other end of a pipe.
type fakeSystemd struct {
	t  *testing.T
	wg sync.WaitGroup

	mu     sync.Mutex
	units  map[string]map[string]any // properties, by unit
	calls  []string
	result string // of jobs; empty: done
	silent bool   // jobs never end
	closes bool   // the connection is closed when the first call comes
}

func newFake(t *testing.T) *fakeSystemd {
	f := &fakeSystemd{t: t, units: map[string]map[string]any{}}
	t.Cleanup(f.wg.Wait)
	return f
}

func (f *fakeSystemd) dial(ctx context.Context, signals dbus.SignalHandler) (*dbus.Conn, error) {
	ours, theirs := net.Pipe()
	f.wg.Go(func() { f.serve(theirs) })
	conn, err := dbus.NewConn(ours, dbus.WithContext(ctx), dbus.WithSignalHandler(signals))
	if err != nil {
		return nil, err
	}
	return conn, conn.Auth([]dbus.Auth{dbus.AuthAnonymous()})
}

// serve lets a client in, and answers it until it goes.
func (f *fakeSystemd) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.Trim(line, "\x00\r\n")
		if line == "BEGIN" {
			break
		}
		answer := "OK 0123456789abcdef\r\n"
		if line == "AUTH" {
			answer = "REJECTED ANONYMOUS\r\n"
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
	for {
		call, err := dbus.DecodeMessage(in)
		if err != nil || f.answer(c, call) != nil {
			return
		}
	}
}

var errHungUp = errors.New("the connection is closed")

func (f *fakeSystemd) answer(c io.Writer, call *dbus.Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	method, _ := call.Headers[dbus.FieldMember].Value().(string)
	unit := ""
	if len(call.Body) > 0 {
		unit, _ = call.Body[0].(string)
	}
	if method != "Subscribe" && method != "Get" {
		f.calls = append(f.calls, method+" "+unit)
	}
	if f.closes {
		return errHungUp
	}
	switch method {
	case "Get":
		return reply(c, call, dbus.MakeVariant("v252.39-1~deb12u1"))
	case "StartTransientUnit":
		if f.units[unit] != nil {
			return fail(c, call, unitExists)
		}
		f.units[unit] = map[string]any{}
		f.set(unit, call.Body[2])
		return f.job(c, call, unit)
	case "SetUnitProperties":
		if f.units[unit] == nil {
			return fail(c, call, noSuchUnit)
		}
		f.set(unit, call.Body[2])
	case "StopUnit":
		if f.units[unit] == nil {
			return fail(c, call, notLoaded)
		}
		delete(f.units, unit)
		return f.job(c, call, unit)
	case "ResetFailedUnit":
		return fail(c, call, notLoaded)
	}
	return reply(c, call)
}

// set takes over an array of (name, variant).
func (f *fakeSystemd) set(unit string, properties any) {
	list, ok := properties.([][]any)
	if !ok {
		f.t.Errorf("properties are %T", properties)
	}
	for _, p := range list {
		name, _ := p[0].(string)
		value, _ := p[1].(dbus.Variant)
		f.units[unit][name] = value.Value()
	}
}

// job answers with a job, and says that another one and this one have ended: this one before the answer, as
// systemd may.
func (f *fakeSystemd) job(c io.Writer, call *dbus.Message, unit string) error {
	const job = dbus.ObjectPath("/org/freedesktop/systemd1/job/7")
	result := f.result
	if result == "" {
		result = jobDone
	}
	if !f.silent {
		for _, ended := range []dbus.ObjectPath{"/org/freedesktop/systemd1/job/6", job} {
			err := send(c, &dbus.Message{Type: dbus.TypeSignal, Headers: map[dbus.HeaderField]dbus.Variant{
				dbus.FieldPath: dbus.MakeVariant(objectPath), dbus.FieldInterface: dbus.MakeVariant(iface), dbus.FieldMember: dbus.MakeVariant(jobRemoved),
			}, Body: []any{uint32(7), ended, unit, result}})
			if err != nil {
				return err
			}
		}
	}
	return reply(c, call, job)
}

func reply(c io.Writer, call *dbus.Message, body ...any) error {
	return send(c, &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{dbus.FieldReplySerial: dbus.MakeVariant(call.Serial())}, Body: body})
}

func fail(c io.Writer, call *dbus.Message, name string) error {
	return send(c, &dbus.Message{Type: dbus.TypeError, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldReplySerial: dbus.MakeVariant(call.Serial()), dbus.FieldErrorName: dbus.MakeVariant(name),
	}})
}

func send(c io.Writer, m *dbus.Message) error {
	if len(m.Body) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(m.Body...))
	}
	return m.EncodeTo(c, binary.LittleEndian)
}

func (f *fakeSystemd) called() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.calls
	f.calls = nil
	return out
}

func TestASliceIsMadeChangedAndRemoved(t *testing.T) {
	f := newFake(t)
	m := New(Config{Dial: f.dial})
	const slice = "kubepods-burstable-pod1_2.slice"

	// when it is started, then it has its properties
	if err := m.Start(t.Context(), slice, []Property{{"MemoryMax", uint64(1 << 30)}}); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"Description": "Kubernetes cgroup kubepods-burstable-pod1_2", "DefaultDependencies": false, "Wants": []string{"kubepods-burstable.slice"},
		"CPUAccounting": true, "IOAccounting": true, "MemoryAccounting": true, "TasksAccounting": true, "MemoryMax": uint64(1 << 30),
	}
	equal := func(a, b any) bool {
		as, aList := a.([]string)
		bs, bList := b.([]string)
		if aList && bList {
			return slices.Equal(as, bs)
		}
		return a == b
	}
	if got := f.units[slice]; !maps.EqualFunc(got, want, equal) {
		t.Errorf("it has %v", got)
	}

	// when it is started again, as a restarted agent does, then its properties are set
	if err := m.Start(t.Context(), slice, []Property{{"MemoryMax", uint64(2 << 30)}}); err != nil || f.units[slice]["MemoryMax"] != uint64(2<<30) {
		t.Errorf("got %v, %v", f.units[slice], err)
	}
	if err := m.Set(t.Context(), slice, []Property{{"CPUWeight", uint64(5)}}); err != nil || f.units[slice]["CPUWeight"] != uint64(5) {
		t.Errorf("got %v, %v", f.units[slice], err)
	}

	// when it is stopped, then it is gone, and that can be repeated
	for range 2 {
		if err := m.Stop(t.Context(), slice); err != nil || f.units[slice] != nil {
			t.Errorf("got %v, %v", f.units[slice], err)
		}
	}
	wantCalls := []string{
		"StartTransientUnit " + slice, "StartTransientUnit " + slice, "SetUnitProperties " + slice, "SetUnitProperties " + slice,
		"StopUnit " + slice, "ResetFailedUnit " + slice, "StopUnit " + slice,
	}
	if got := f.called(); !slices.Equal(got, wantCalls) {
		t.Errorf("called %q", got)
	}
}

func TestAJobThatFailsIsAnError(t *testing.T) {
	f := newFake(t)
	f.result = "dependency"
	if err := New(Config{Dial: f.dial}).Start(t.Context(), "a.slice", nil); err == nil || !strings.Contains(err.Error(), "start a.slice") || !strings.Contains(err.Error(), "dependency") {
		t.Errorf("got %v", err)
	}
}

// A systemd that is executed anew hangs up, or forgets to say that a job has ended.
func TestNoOperationLastsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		m := New(Config{Dial: f.dial})
		f.silent = true
		began := time.Now()
		if err := m.Start(t.Context(), "a.slice", nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != operationTimeout {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		f.silent, f.closes = false, true
		if err := m.Stop(t.Context(), "a.slice"); err == nil {
			t.Error("a connection that is closed is no error")
		}
		f.closes = false
		if err := m.Stop(t.Context(), "a.slice"); err != nil || f.units["a.slice"] != nil { // the next one has another connection
			t.Errorf("got %v", err)
		}
	})
}

func TestVersion(t *testing.T) {
	f := newFake(t)
	m := New(Config{Dial: f.dial})
	for range 2 {
		if got, err := m.Version(t.Context()); err != nil || got != 252 {
			t.Errorf("got %d, %v", got, err)
		}
	}
	for text, want := range map[string]int{`"v239"`: 239, `"239"`: 239, `"252 (252-4)"`: 252, `"v257~rc1"`: 257, `""`: 0, `"new"`: 0} {
		if got, err := parseVersion(text); got != want || (err != nil) != (want == 0) {
			t.Errorf("%s: got %d, %v", text, got, err)
		}
	}
}

func TestParents(t *testing.T) {
	for slice, want := range map[string]string{
		"kubepods.slice": "", "kubepods-burstable.slice": "kubepods.slice", "kubepods-burstable-pod1_2.slice": "kubepods-burstable.slice",
	} {
		if got := parentOf(slice); got != want {
			t.Errorf("%s: got %q", slice, got)
		}
	}
}
