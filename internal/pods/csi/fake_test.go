package csi

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth/internal/lib/pod"
	"berth/internal/lib/volumekind"
)

const disks = "disks.example.com"

// server is a CSI driver behind a real socket. It mounts nothing, and records its calls.
type server struct {
	spec.UnimplementedNodeServer
	endpoint string
	info     *spec.NodeGetInfoResponse
	can      []spec.NodeServiceCapability_RPC_Type
	before   func(call string) error // nil: nothing

	mu        sync.Mutex
	calls     []string
	mounts    map[string]bool
	stages    []*spec.NodeStageVolumeRequest
	publishes []*spec.NodePublishVolumeRequest
	expands   []*spec.NodeExpandVolumeRequest
}

func (s *server) note(call, path string, mounted bool) error {
	if s.before != nil {
		if err := s.before(call); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	if mounted {
		s.mounts[path] = true
	} else {
		delete(s.mounts, path)
	}
	return nil
}

func (s *server) NodeGetInfo(context.Context, *spec.NodeGetInfoRequest) (*spec.NodeGetInfoResponse, error) {
	return s.info, nil
}

func (s *server) NodeGetCapabilities(context.Context, *spec.NodeGetCapabilitiesRequest) (*spec.NodeGetCapabilitiesResponse, error) {
	out := &spec.NodeGetCapabilitiesResponse{}
	for _, c := range s.can {
		out.Capabilities = append(out.Capabilities, &spec.NodeServiceCapability{
			Type: &spec.NodeServiceCapability_Rpc{Rpc: &spec.NodeServiceCapability_RPC{Type: c}},
		})
	}
	return out, nil
}

func (s *server) NodeStageVolume(_ context.Context, r *spec.NodeStageVolumeRequest) (*spec.NodeStageVolumeResponse, error) {
	s.mu.Lock()
	s.stages = append(s.stages, r)
	s.mu.Unlock()
	return &spec.NodeStageVolumeResponse{}, s.note("stage "+r.VolumeId, r.StagingTargetPath, true)
}

func (s *server) NodeUnstageVolume(_ context.Context, r *spec.NodeUnstageVolumeRequest) (*spec.NodeUnstageVolumeResponse, error) {
	return &spec.NodeUnstageVolumeResponse{}, s.note("unstage "+r.VolumeId, r.StagingTargetPath, false)
}

func (s *server) NodePublishVolume(_ context.Context, r *spec.NodePublishVolumeRequest) (*spec.NodePublishVolumeResponse, error) {
	s.mu.Lock()
	s.publishes = append(s.publishes, r)
	s.mu.Unlock()
	return &spec.NodePublishVolumeResponse{}, s.note("publish "+r.VolumeId, r.TargetPath, true)
}

func (s *server) NodeUnpublishVolume(_ context.Context, r *spec.NodeUnpublishVolumeRequest) (*spec.NodeUnpublishVolumeResponse, error) {
	return &spec.NodeUnpublishVolumeResponse{}, s.note("unpublish "+r.VolumeId, r.TargetPath, false)
}

func (s *server) NodeExpandVolume(_ context.Context, r *spec.NodeExpandVolumeRequest) (*spec.NodeExpandVolumeResponse, error) {
	s.mu.Lock()
	s.expands = append(s.expands, r)
	s.mu.Unlock()
	return &spec.NodeExpandVolumeResponse{}, s.note("expand "+r.VolumeId, r.VolumePath, true)
}

func (s *server) isMount(path string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mounts[path], nil
}

// takeOff unmounts behind the back of the driver.
func (s *server) takeOff(_ context.Context, path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, "take off "+filepath.Base(path))
	delete(s.mounts, path)
	return nil
}

// reboot forgets all mounts.
func (s *server) reboot() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mounts = map[string]bool{}
}

func (s *server) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.calls
	s.calls = nil
	return out
}

// objects are the API objects of a cluster, by name.
type objects struct {
	drivers     map[string]*storagev1.CSIDriver
	attachments map[string]*storagev1.VolumeAttachment
	secrets     map[string]*v1.Secret
}

func find[T any](in map[string]*T, name string) (*T, error) {
	if o := in[name]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, name)
}

func (o *objects) CSIDriver(_ context.Context, _ *v1.Pod, name string) (*storagev1.CSIDriver, error) {
	return find(o.drivers, name)
}

func (o *objects) VolumeAttachment(_ context.Context, _ *v1.Pod, name string) (*storagev1.VolumeAttachment, error) {
	return find(o.attachments, name)
}

func (o *objects) SecretIn(_ context.Context, _ *v1.Pod, namespace, name string) (*v1.Secret, error) {
	return find(o.secrets, namespace+"/"+name)
}

func (o *objects) Token(_ context.Context, p *v1.Pod, audience string, _ int64) (string, time.Time, time.Time, error) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	return "token of " + p.Name + " for " + audience, at, time.Now().Add(10 * time.Second), nil
}

// cluster attaches every volume that was reported as in use.
type cluster struct {
	mu       sync.Mutex
	inUse    []v1.UniqueVolumeName
	all      bool
	detached bool // nothing is attached
	away     error
}

func (c *cluster) SetVolumesInUse(volumes []v1.UniqueVolumeName, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inUse, c.all = volumes, all
}

func (c *cluster) Attached(_ context.Context, volume v1.UniqueVolumeName) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.detached && slices.Contains(c.inUse, volume), c.away
}

// world is a manager and a driver that it asks.
type world struct {
	t       *testing.T
	driver  *server
	objects *objects
	cluster *cluster
	cfg     Config
	m       *Manager
	woken   chan pod.UID
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{
		t: t, woken: make(chan pod.UID, 10), cluster: &cluster{},
		driver: &server{
			endpoint: filepath.Join(dir, "s"), info: &spec.NodeGetInfoResponse{NodeId: "box-id"}, mounts: map[string]bool{},
			can: []spec.NodeServiceCapability_RPC_Type{spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME},
		},
		objects: &objects{drivers: map[string]*storagev1.CSIDriver{}, attachments: map[string]*storagev1.VolumeAttachment{}, secrets: map[string]*v1.Secret{}},
	}
	w.described()
	listener, err := net.Listen("unix", w.driver.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	spec.RegisterNodeServer(g, w.driver)
	go func() { _ = g.Serve(listener) }() // it ends by Stop
	t.Cleanup(g.Stop)
	w.cfg = Config{
		PodsDir: filepath.Join(dir, "pods"), PluginsDir: filepath.Join(dir, "plugins"), NodeName: "box", Objects: w.objects,
		IsMount: w.driver.isMount, UnmountPath: w.driver.takeOff, Cluster: w.cluster, Enqueue: func(_ context.Context, uid pod.UID) { w.woken <- uid },
		CallTimeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler),
	}
	w.restart()
	w.register()
	return w
}

// described returns the CSIDriver object of the driver. Its volumes need no attachment.
func (w *world) described() *storagev1.CSIDriverSpec {
	if w.objects.drivers[disks] == nil {
		w.objects.drivers[disks] = &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}}
	}
	return &w.objects.drivers[disks].Spec
}

func (w *world) restart() {
	w.t.Helper()
	var err error
	if w.m, err = New(w.cfg); err != nil {
		w.t.Fatal(err)
	}
}

// alone makes it a machine that is in no cluster.
func (w *world) alone() {
	w.t.Helper()
	w.cfg.Cluster = nil
	w.restart()
	w.register()
}

func (w *world) register() {
	w.t.Helper()
	if err := w.m.Register(w.t.Context(), disks, w.driver.endpoint, nil); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.m.Unregister(disks) })
}

// request is for a persistent volume, or with an empty handle for one of the pod alone.
func (w *world) request(uid, handle string) Request {
	return Request{
		Pod:  &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-" + uid, Namespace: "shop", UID: pod.UID(uid)}},
		Name: "vol" + handle, Driver: disks, Handle: handle, Group: -1, OnStep: func(string) {},
		Dir:         filepath.Join(w.cfg.PodsDir, uid, "volumes", volumekind.CSI.Dir(), "vol"+handle),
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
	}
}

func (w *world) mount(r Request) Mounted {
	w.t.Helper()
	out, err := w.m.Mount(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) mountFails(r Request, says string) {
	w.t.Helper()
	_ = w.failure(r, says)
}

func (w *world) failure(r Request, says string) error {
	w.t.Helper()
	got, err := w.m.Mount(w.t.Context(), r)
	if err == nil || !strings.Contains(err.Error(), says) {
		w.t.Fatalf("error %v; want one that says %s", err, says)
	}
	if got.Path != "" {
		w.t.Error("a volume that failed can be used:", got)
	}
	return err
}

// unmount unmounts a volume as for a pod that is removed.
func (w *world) unmount(r Request) {
	w.t.Helper()
	w.m.Forget(r.Pod.UID)
	if err := w.m.Unmount(w.t.Context(), r.Pod.UID, r.Dir, r.OnStep); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) expect(calls ...string) {
	w.t.Helper()
	if got := w.driver.take(); !slices.Equal(got, calls) {
		w.t.Errorf("the driver was asked to %q, want %q", got, calls)
	}
}

// inUse checks the volumes that were reported to the cluster as in use.
func (w *world) inUse(all bool, handles ...string) {
	w.t.Helper()
	var want []v1.UniqueVolumeName
	for _, h := range handles {
		want = append(want, v1.UniqueVolumeName("kubernetes.io/csi/"+disks+"^"+h))
	}
	if !slices.Equal(w.cluster.inUse, want) || w.cluster.all != all {
		w.t.Errorf("in use: %q, all: %v; want %q, %v", w.cluster.inUse, w.cluster.all, want, all)
	}
}

// nothingLeft checks that there are no mounts, records and staging directories.
func (w *world) nothingLeft() {
	w.t.Helper()
	if left := slices.Collect(maps.Keys(w.driver.mounts)); len(left) > 0 {
		w.t.Error("mounted:", left)
	}
	for _, pattern := range []string{w.cfg.PodsDir + "/*/volumes/*/*/*", w.cfg.PluginsDir + "/kubernetes.io/csi/*/*"} {
		if left, err := filepath.Glob(pattern); len(left) > 0 || err != nil {
			w.t.Error("left:", left, err)
		}
	}
	if w.m.locks.InUse() > 0 || len(w.m.waiting) > 0 || len(w.m.warned) > 0 {
		w.t.Error(fmt.Sprint(w.m.locks.InUse(), w.m.waiting, w.m.warned))
	}
}
