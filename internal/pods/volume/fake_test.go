package volume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth/internal/lib/pod"
	"berth/internal/pods/csi"
	"berth/internal/pods/expansion"
)

// objects are the API objects of the tests, by name. The namespace is always "shop".
type objects struct {
	mu         sync.Mutex
	configMaps map[string]*v1.ConfigMap
	secrets    map[string]*v1.Secret
	claims     map[string]*v1.PersistentVolumeClaim
	volumes    map[string]*v1.PersistentVolume
	token      string
	refreshAt  time.Time
	tokenError error
	bundles    []string
	noBundles  error
}

// usable reports whether all volumes can be used in spite of an error.
func usable(err error) bool {
	var all Errors
	return errors.As(err, &all) && !slices.ContainsFunc(all, func(e *Error) bool { return !e.Usable })
}

func get[T any](o *objects, from map[string]*T, kind, namespace, name string) (*T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if found, ok := from[name]; ok && (namespace == "shop" || namespace == "") {
		return found, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

func (o *objects) ConfigMap(_ context.Context, p *v1.Pod, name string) (*v1.ConfigMap, error) {
	return get(o, o.configMaps, "configmaps", p.Namespace, name)
}

func (o *objects) Secret(_ context.Context, p *v1.Pod, name string) (*v1.Secret, error) {
	return get(o, o.secrets, "secrets", p.Namespace, name)
}

func (o *objects) PersistentVolumeClaim(_ context.Context, p *v1.Pod, name string) (*v1.PersistentVolumeClaim, error) {
	return get(o, o.claims, "persistentvolumeclaims", p.Namespace, name)
}

func (o *objects) PersistentVolume(_ context.Context, _ *v1.Pod, name string) (*v1.PersistentVolume, error) {
	return get(o, o.volumes, "persistentvolumes", "", name)
}

func (o *objects) Token(_ context.Context, _ *v1.Pod, audience string, seconds int64) (string, time.Time, time.Time, error) {
	if o.tokenError != nil {
		return "", time.Time{}, time.Time{}, o.tokenError
	}
	return fmt.Sprintf("%s for %q, %d s", o.token, audience, seconds), o.refreshAt.Add(time.Hour), o.refreshAt, nil
}

func (o *objects) TrustBundles(context.Context, *v1.Pod, *v1.ClusterTrustBundleProjection) ([]string, error) {
	return o.bundles, o.noBundles
}

// fakeCSI makes directories.
type fakeCSI struct {
	requests []csi.Request
	unmounts []string
	again    time.Time
	fails    error
	keeps    bool // what fails is there nevertheless
	labels   bool // volumes are mounted with SELinux labels
}

func (f *fakeCSI) Mount(ctx context.Context, r csi.Request) (csi.Mounted, error) {
	if f.fails != nil && f.keeps {
		return csi.Mounted{Path: filepath.Join(r.Dir, "mount"), RepublishAt: f.again}, f.fails
	}
	if f.fails != nil {
		return csi.Mounted{}, f.fails
	}
	r.OnStep("mount it")
	f.requests = append(f.requests, r)
	path := filepath.Join(r.Dir, "mount")
	if err := os.MkdirAll(path, 0o700); err != nil {
		return csi.Mounted{}, err
	}
	if r.Expand != nil {
		if err := r.Expand(ctx); err != nil {
			return csi.Mounted{}, err
		}
	}
	return csi.Mounted{Path: path, RepublishAt: f.again, Labelled: f.labels && r.SELinuxLabel != nil}, nil
}

func (f *fakeCSI) Unmount(_ context.Context, uid pod.UID, dir string, _ func(string)) error {
	if f.fails != nil {
		return f.fails
	}
	f.unmounts = append(f.unmounts, string(uid)+" "+filepath.Base(dir))
	return nil
}

func (f *fakeCSI) Forget(pod.UID) {}

// fakeExpander records the volumes that it is asked about.
type fakeExpander struct {
	again time.Time
	calls []string
}

func (f *fakeExpander) AtMount(_ context.Context, v expansion.Volume, claim *v1.PersistentVolumeClaim) error {
	f.calls = append(f.calls, fmt.Sprintf("mount %s %s %s %v", claim.Name, v.PV.Name, filepath.Base(v.Dir), v.ReadOnly))
	return nil
}

func (f *fakeExpander) Online(v expansion.Volume) time.Time {
	f.calls = append(f.calls, fmt.Sprintf("online %s %s %s %v", v.Claim, v.PV.Name, filepath.Base(v.Dir), v.ReadOnly))
	return f.again
}

func (f *fakeExpander) Forget(uid pod.UID) { f.calls = append(f.calls, "forget "+string(uid)) }

// fakeMounter records mounts, and makes none.
type fakeMounter struct {
	mu     sync.Mutex
	mounts []MountPoint
	done   []string
	busy   string // a mount point that is in use
	block  chan struct{}
	remote time.Duration // that a server takes to answer
	swaps  bool          // what is in memory may go to a disk
	tables int           // how often all mounts were listed
}

func (f *fakeMounter) note(format string, args ...any) {
	f.done = append(f.done, fmt.Sprintf(format, args...))
}

func (f *fakeMounter) Mount(fstype, dir, options string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.note("%s %s %s", fstype, filepath.Base(dir), options)
	f.mounts = append(f.mounts, MountPoint{Path: dir, FSType: fstype})
	return f.swaps, nil
}

func (f *fakeMounter) MountRemote(ctx context.Context, fstype, source, dir string, options []string) error {
	select {
	case <-time.After(f.remote):
	case <-ctx.Done():
		return ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.note("%s %s %s", fstype, source, strings.Join(options, ","))
	f.mounts = append(f.mounts, MountPoint{Path: dir, FSType: fstype})
	return nil
}

func (f *fakeMounter) Bind(what *os.File, path string, options []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	source, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", what.Fd()))
	if err != nil {
		return err
	}
	f.note("%s", strings.TrimSpace("bind "+source+" "+strings.Join(options, ",")))
	f.mounts = append(f.mounts, MountPoint{Path: path, FSType: "ext4"})
	return nil
}

func (f *fakeMounter) Unmount(_ context.Context, m MountPoint) error {
	if f.block != nil {
		<-f.block
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.Path == f.busy {
		return unix.EBUSY
	}
	f.note("unmount %s", filepath.Base(m.Path))
	i := slices.Index(f.mounts, m)
	if i < 0 {
		return fmt.Errorf("%s is not mounted", m.Path)
	}
	f.mounts = slices.Delete(f.mounts, i, i+1)
	return nil
}

func (f *fakeMounter) IsMount(path string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.mounts, func(m MountPoint) bool { return m.Path == path }), nil
}

func (f *fakeMounter) At(path string) (MountPoint, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range slices.Backward(f.mounts) {
		if m.Path == path {
			return m, true, nil
		}
	}
	return MountPoint{}, false, nil
}

// BlockDevice takes files in a directory "dev" for devices.
func (f *fakeMounter) BlockDevice(path string) (string, error) {
	if filepath.Base(filepath.Dir(path)) != "dev" && filepath.Base(path) != "mount" {
		return "", fmt.Errorf("%s is not a block device", path)
	}
	return path, nil
}

func (f *fakeMounter) Below(dir string) ([]MountPoint, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tables++
	var out []MountPoint
	for _, m := range f.mounts {
		if strings.HasPrefix(m.Path, dir+"/") {
			out = append(out, m)
		}
	}
	return out, nil
}

// world is a manager with a fake around it.
type world struct {
	t       *testing.T
	objects *objects
	mounter *fakeMounter
	csi     *fakeCSI
	cfg     Config
	m       *Manager
	woken   []pod.UID
	warned  []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t:       t,
		mounter: &fakeMounter{},
		csi:     &fakeCSI{},
		objects: &objects{
			configMaps: map[string]*v1.ConfigMap{}, secrets: map[string]*v1.Secret{},
			claims: map[string]*v1.PersistentVolumeClaim{}, volumes: map[string]*v1.PersistentVolume{},
		},
	}
	w.cfg = Config{
		PodsDir: filepath.Join(t.TempDir(), "pods"), Objects: w.objects, Mounter: w.mounter, CSI: w.csi,
		Image: func(_ context.Context, _ *v1.Pod, _ string, s *v1.ImageVolumeSource) (string, time.Time, error) {
			return "id of " + s.Reference, time.Time{}, nil
		},
		NodeName:          "box",
		NodeLabels:        func() map[string]string { return map[string]string{"kubernetes.io/hostname": "box"} },
		Allocatable:       func() v1.ResourceList { return v1.ResourceList{"memory": resource.MustParse("8Gi")} },
		HostIPs:           func() []string { return []string{"10.0.0.1"} },
		RecursiveReadOnly: func(*v1.Pod) bool { return true },
		Enqueue:           func(_ context.Context, uid pod.UID) { w.woken = append(w.woken, uid) },
		Warn: func(p *v1.Pod, reason, message string) {
			w.warned = append(w.warned, fmt.Sprintf("%s: %s: %s", p.UID, reason, message))
		},
		Timeout: time.Minute,
		Log:     slog.New(slog.DiscardHandler),
	}
	w.restart()
	return w
}

// restart forgets all that is only in memory.
func (w *world) restart() {
	w.t.Helper()
	var err error
	if w.m, err = New(w.cfg); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) setup(p *v1.Pod) time.Time {
	w.t.Helper()
	due, err := w.m.Setup(context.Background(), p, []string{"10.1.0.2"})
	if err != nil {
		w.t.Fatal(err)
	}
	return due
}

func (w *world) setupFails(p *v1.Pod, says string) {
	w.t.Helper()
	_ = w.failure(p, says)
}

func (w *world) failure(p *v1.Pod, says string) error {
	w.t.Helper()
	_, err := w.m.Setup(context.Background(), p, nil)
	if err == nil || !strings.Contains(err.Error(), says) {
		w.t.Fatalf("error %v; want one that says %s", err, says)
	}
	return err
}

// dir is where the volume of p is, as a container sees it.
func (w *world) dir(p *v1.Pod) string {
	w.t.Helper()
	mounts, err := w.m.Mounts(context.Background(), p, &p.Spec.Containers[0], nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return mounts[0].HostPath
}

func (w *world) must(dir string, want map[string]string) {
	w.t.Helper()
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != text {
			w.t.Errorf("%s: %q, %v; want %q", name, got, err, text)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	tops := map[string]bool{}
	for name := range want {
		top, _, _ := strings.Cut(name, "/")
		tops[top] = true
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..") && !tops[e.Name()] {
			w.t.Errorf("%s should not be there", e.Name())
		}
	}
}

// podWith is a pod whose container mounts its one volume.
func podWith(source v1.VolumeSource) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "u-1", Labels: map[string]string{"app": "web"}},
		Spec: v1.PodSpec{
			Volumes: []v1.Volume{{Name: "vol", VolumeSource: source}},
			Containers: []v1.Container{{
				Name: "app", VolumeMounts: []v1.VolumeMount{{Name: "vol", MountPath: "/vol"}},
			}},
		},
	}
}

func withGroup(p *v1.Pod, gid int64) *v1.Pod {
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &gid}
	return p
}

// someGroup returns a group that this process may give files to, if possible not its own.
func someGroup() int64 {
	if os.Getuid() == 0 {
		return 4242
	}
	return int64(os.Getgid())
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}
