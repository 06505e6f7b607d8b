package plugins

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"berth/internal/lib/logonce"
)

// driver is a plugin with a real socket.
type driver struct {
	registration.UnimplementedRegistrationServer
	info   *registration.PluginInfo
	status chan *registration.RegistrationStatus
	server *grpc.Server
}

func (d *driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return d.info, nil
}

func (d *driver) NotifyRegistrationStatus(ctx context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	select {
	case d.status <- s:
	case <-ctx.Done(): // the agent has gone
	}
	return &registration.RegistrationStatusResponse{}, nil
}

func serve(t *testing.T, socket, kind, name string) *driver {
	t.Helper()
	return serveWith(t, socket, kind, name, make(chan *registration.RegistrationStatus, 100))
}

// serveWith serves a plugin whose answer to a notification waits until status has room for it.
func serveWith(t *testing.T, socket, kind, name string, status chan *registration.RegistrationStatus) *driver {
	t.Helper()
	d := &driver{
		info:   &registration.PluginInfo{Type: kind, Name: name, Endpoint: "/csi.sock", SupportedVersions: []string{"1.0.0"}},
		status: status, server: grpc.NewServer(),
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	registration.RegisterRegistrationServer(d.server, d)
	go func() { _ = d.server.Serve(listener) }() // it ends by Stop
	t.Cleanup(d.server.Stop)
	return d
}

// handler records its calls.
type handler struct {
	calls  chan string
	refuse error
}

func (h *handler) Validate(name, _ string, versions []string) error {
	if h.refuse != nil {
		return h.refuse
	}
	h.calls <- fmt.Sprint("validate ", name, versions)
	return nil
}

func (h *handler) Register(_ context.Context, name, endpoint string, _ []string) error {
	h.calls <- "register " + name + " at " + endpoint
	return nil
}

func (h *handler) Unregister(name string) { h.calls <- "unregister " + name }

func (h *handler) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-h.calls:
			if got != w {
				t.Fatalf("%q, want %q", got, w)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("not reported: %s", w)
		}
	}
}

type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func watch(t *testing.T, dir string, h *handler) (log *buffer, stop func()) {
	t.Helper()
	_, log, stop = startWatcher(t, dir, h)
	return log, stop
}

func startWatcher(t *testing.T, dir string, h *handler) (w *Watcher, log *buffer, stop func()) {
	t.Helper()
	log = &buffer{}
	w, err := New(Config{Dir: dir, Handlers: map[string]Handler{"CSIPlugin": h}, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return w, log, stop
}

func TestSocketsAreListedWithTheirState(t *testing.T) {
	// Given a plugin, and a socket at which nothing answers
	dir := t.TempDir()
	serve(t, filepath.Join(dir, "a.sock"), "CSIPlugin", "disk.example")
	dead, err := net.Listen("unix", filepath.Join(dir, "b.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	h := &handler{calls: make(chan string, 10)}

	// when both are found
	w, _, _ := startWatcher(t, dir, h)
	h.expect(t, "validate disk.example[1.0.0]", "register disk.example at /csi.sock")

	// then one of them is registered
	want := map[string]bool{filepath.Join(dir, "a.sock"): true, filepath.Join(dir, "b.sock"): false}
	deadline := time.After(10 * time.Second)
	for !maps.Equal(w.Sockets(), want) {
		select {
		case <-deadline:
			t.Fatalf("got %v, want %v", w.Sockets(), want)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// folder is one whose path is short enough for sockets.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "plugins")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "reg")
}

func TestPluginsComeAndGo(t *testing.T) {
	// given one that is there before us
	dir := folder(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	first := serve(t, filepath.Join(dir, "a.sock"), "CSIPlugin", "a.example.com")
	h := &handler{calls: make(chan string, 100)}
	_, stop := watch(t, dir, h)
	h.expect(t, "validate a.example.com[1.0.0]", "register a.example.com at /csi.sock")
	if s := <-first.status; !s.PluginRegistered || s.Error != "" {
		t.Error(s)
	}

	// when another comes, and makes its socket anew, and goes
	second := serve(t, filepath.Join(dir, "b.sock"), "CSIPlugin", "b.example.com")
	h.expect(t, "validate b.example.com[1.0.0]", "register b.example.com at /csi.sock")
	second.server.Stop() // which removes the socket
	h.expect(t, "unregister b.example.com")
	second = serve(t, filepath.Join(dir, "b.sock"), "CSIPlugin", "b2.example.com")
	h.expect(t, "validate b2.example.com[1.0.0]", "register b2.example.com at /csi.sock")
	second.server.Stop()
	h.expect(t, "unregister b2.example.com")

	// then at our end the rest stays
	stop()
	select {
	case got := <-h.calls:
		t.Error(got)
	default:
	}
}

func TestAPluginStaysRegisteredIfTheAgentEndsBeforeItsAnswer(t *testing.T) {
	// given a plugin that does not answer that it knows of its registration
	dir := folder(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	status := make(chan *registration.RegistrationStatus)
	serveWith(t, filepath.Join(dir, "a.sock"), "CSIPlugin", "a.example.com", status)
	h := &handler{calls: make(chan string, 100)}
	_, stop := watch(t, dir, h)
	h.expect(t, "validate a.example.com[1.0.0]", "register a.example.com at /csi.sock")

	// when the agent ends, then the plugin is still registered
	stop()
	select {
	case got := <-h.calls:
		t.Error(got)
	default:
	}
}

func TestAPluginIsReplacedByASecondSocket(t *testing.T) {
	dir := folder(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	h := &handler{calls: make(chan string, 100)}
	_, stop := watch(t, dir, h)
	come := func(socket string) *driver {
		d := serve(t, filepath.Join(dir, socket), "CSIPlugin", "a.example.com")
		h.expect(t, "validate a.example.com[1.0.0]", "register a.example.com at /csi.sock")
		<-d.status
		return d
	}
	// given a plugin, and a newer one of the same name
	first := come("1.sock")
	second := come("2.sock")
	third := come("3.sock")

	// when an old one goes, then the newer one stays
	first.server.Stop()
	// and when the newest one goes, then the one before it is back
	third.server.Stop()
	h.expect(t, "unregister a.example.com", "validate a.example.com[1.0.0]", "register a.example.com at /csi.sock")
	<-second.status
	second.server.Stop()
	h.expect(t, "unregister a.example.com")
	stop()
	if len(h.calls) > 0 {
		t.Error(<-h.calls)
	}
}

func TestTheFolderMayFailMoreThanOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buffer
		w := &Watcher{Config: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		round := 0
		w.retryWatch(t.Context(), func(works func()) error {
			round++
			switch round {
			case 1, 2, 4:
				return errors.New("no such disk")
			case 3:
				works()
				time.Sleep(logonce.Pause)
				return errors.New("it broke again")
			default:
				return nil
			}
		})
		text := log.String()
		if strings.Count(text, "no such disk") != 1 || strings.Count(text, "it broke again") != 1 || strings.Count(text, "looked for again") != 1 {
			t.Error(text)
		}
	})
}

func TestAPluginGetsTheReasonOfItsRefusal(t *testing.T) {
	dir := folder(t)
	h := &handler{refuse: errors.New("version 7 is not known")}
	log, _ := watch(t, dir, h)
	waitFor(t, func() bool { _, err := os.Stat(dir); return err == nil })
	other := serve(t, filepath.Join(dir, "gpu.sock"), "Toaster", "gpu")
	bad := serve(t, filepath.Join(dir, "bad.sock"), "CSIPlugin", "bad")

	for range 3 { // and it is tried again, but logged once
		if s := <-bad.status; s.PluginRegistered || s.Error != `CSIPlugin "bad": version 7 is not known` {
			t.Error(s)
		}
	}
	if s := <-other.status; s.PluginRegistered || !strings.Contains(s.Error, `plugins of type "Toaster" are not supported`) {
		t.Error(s)
	}
	if n := strings.Count(log.String(), "version 7"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

func TestASocketThatIsNotServedYet(t *testing.T) {
	dir := folder(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	// given the socket of a plugin that was killed, a file, and a hidden socket
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "a.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := &handler{calls: make(chan string, 100)}
	log, _ := watch(t, dir, h)
	waitFor(t, func() bool { return strings.Contains(log.String(), "can't register a plugin") })

	// when it is back, then it is registered
	if err := os.Remove(filepath.Join(dir, "a.sock")); err != nil {
		t.Fatal(err)
	}
	serve(t, filepath.Join(dir, "a.sock"), "CSIPlugin", "a.example.com")
	h.expect(t, "validate a.example.com[1.0.0]", "register a.example.com at /csi.sock")
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatal("it does not happen")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestNewNamesMissingFields(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("an empty configuration is taken")
	}
}

func TestAFolderOfTooManySocketsIsAnError(t *testing.T) {
	dir := t.TempDir()
	add := func(i int) {
		t.Helper()
		if err := syscall.Mknod(filepath.Join(dir, strconv.Itoa(i)+".sock"), syscall.S_IFSOCK|0o600, 0); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxSockets {
		add(i)
	}
	if found, err := list(dir); len(found) != maxSockets || err != nil {
		t.Errorf("%d, %v", len(found), err)
	}
	add(maxSockets)
	if _, err := list(dir); err == nil || !strings.Contains(err.Error(), "more than 1000 sockets") {
		t.Errorf("got %v", err)
	}
}
