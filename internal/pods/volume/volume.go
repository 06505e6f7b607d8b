// Package volume sets up the volumes of pods: it is the only writer below <pods>/<uid>/volumes,
// <pods>/<uid>/volume-subpaths and <pods>/<uid>/volume-sources.
//
// Setup is called in every sync: it compares each volume of a pod with its source, and writes only
// what differs. Mounts and Devices return what one container gets. Teardown unmounts and removes
// everything; it needs nothing but the disk and the mounts there, so it works after a restart and for
// orphans.
//
// What always holds:
//   - A directory exists before something is mounted on it, so every mount is found again below the pod's
//     directory.
//   - The files of a configMap, secret, downwardAPI or projected volume change all at once: readers go
//     through one symbolic link, which is replaced.
//   - Secrets, tokens and keys are in memory, never on the disk. If the kernel may swap them out nevertheless, the
//     log says so.
//   - A name from a manifest becomes a path only after it was checked, and a path in a volume is opened such
//     that it can't leave the volume.
//   - Nothing is removed across a mount point or through a symbolic link.
//   - Every access to a file system runs in a guard: one that hangs blocks its own pod, and no other. A
//     path is accessed here before the runtime gets it, so that it hangs here.
//   - A volume whose source was edited is another volume, see edited.go.
//   - A volume of access mode ReadWriteOncePod has one holder, see hold.go.
//
// Volumes of CSI drivers are mounted and unmounted by the drivers, see package csi; image volumes are
// mounted by the runtime.
//
// A kind of volume is a file here, a line in the table kinds and one in package volumekind.
package volume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/downward"
	"berth/internal/lib/keyedmutex"
	"berth/internal/lib/pod"
	"berth/internal/pods/csi"
	"berth/internal/pods/expansion"
)

// Objects fetches the API objects that volumes refer to. If one does not exist, apierrors.IsNotFound
// holds for the error.
type Objects interface {
	ConfigMap(ctx context.Context, p *v1.Pod, name string) (*v1.ConfigMap, error)
	Secret(ctx context.Context, p *v1.Pod, name string) (*v1.Secret, error)
	// Token returns a token of the pod's service account, and when to ask again.
	Token(ctx context.Context, p *v1.Pod, audience string, seconds int64) (token string, expires, refreshAt time.Time, err error)
	PersistentVolumeClaim(ctx context.Context, p *v1.Pod, name string) (*v1.PersistentVolumeClaim, error)
	PersistentVolume(ctx context.Context, p *v1.Pod, name string) (*v1.PersistentVolume, error)
	// TrustBundles returns the certificates that a projection asks for, in PEM.
	TrustBundles(ctx context.Context, p *v1.Pod, s *v1.ClusterTrustBundleProjection) ([]string, error)
}

// CSI mounts volumes of the CSI drivers of this machine.
type CSI interface {
	// Mount is idempotent.
	Mount(ctx context.Context, r csi.Request) (csi.Mounted, error)
	// Unmount unmounts the volume in a directory. It needs nothing but the disk, and is idempotent.
	Unmount(ctx context.Context, uid pod.UID, dir string, onStep func(string)) error
	// Forget removes a pod from those that wait for drivers and volumes.
	Forget(uid pod.UID)
}

// Expander grows persistent volumes of CSI drivers on this machine.
type Expander interface {
	// AtMount expands a volume that was just published, if it has grown. An error says that the pod can't
	// have it yet.
	AtMount(ctx context.Context, v expansion.Volume, claim *v1.PersistentVolumeClaim) error
	// Online expands a mounted volume if it has grown, without blocking. It returns when to call it again;
	// zero: never.
	Online(v expansion.Volume) time.Time
	// Forget removes a pod whose volumes are unmounted.
	Forget(uid pod.UID)
}

// Config is checked by New.
type Config struct {
	PodsDir  string // a pod's directory is <PodsDir>/<uid>
	Objects  Objects
	Mounter  Mounter
	CSI      CSI
	Expander Expander // nil without a cluster
	// Certificates is nil without a cluster.
	Certificates Certificates
	// Image returns the runtime's reference of the image of a volume. If the image is not there, the
	// error says why, and again when to call again; zero: the pod is enqueued.
	Image func(ctx context.Context, p *v1.Pod, volume string, s *v1.ImageVolumeSource) (ref string, again time.Time, err error)

	NodeName    string
	NodeLabels  func() map[string]string // for the node affinity of local volumes
	Allocatable func() v1.ResourceList   // of the node
	HostIPs     func() []string

	// RecursiveReadOnly reports whether the runtime of a pod can make a mount and all mounts below it
	// read-only.
	RecursiveReadOnly func(*v1.Pod) bool

	// FileLabel returns the SELinux label of the files of a process with such options, or "" if the machine
	// has none. It may be nil.
	FileLabel func(v1.SELinuxOptions) (string, error)
	// SELinuxMount says that volumes of all access modes are mounted with a label (feature gate).
	SELinuxMount bool

	// Enqueue asks for a sync of a pod that does not have to wait for a volume any more.
	Enqueue func(context.Context, pod.UID)
	// Warn records a warning event of a pod.
	Warn func(p *v1.Pod, reason, message string)
	// OnSetUp is called after each attempt to set up a volume that was not set up. It may be nil.
	OnSetUp func(p *v1.Pod, v *v1.Volume, took time.Duration, err error)

	// Timeout is how long a call waits for a file system before it fails with a HungError. Zero: 20 s.
	Timeout time.Duration
	Log     *slog.Logger
}

const defaultTimeout = 20 * time.Second

// Manager sets up and removes volumes. It may be used from several goroutines; calls for one pod run
// one after the other.
type Manager struct {
	cfg   Config
	guard *guard

	// Replaced by tests that count reads.
	readRecord func(podsDir string, uid pod.UID, volume string) (record, error)

	mu    sync.Mutex
	pods  map[pod.UID]map[string]place // the volumes that are set up, by name
	stuck map[string]time.Time         // mount points whose unmount fails, and since when

	holdMu     sync.Mutex                   // held from looking up the holder of a volume to recording the new one
	waiting    map[pod.UID]map[pod.UID]bool // by holder: the pods that wait for one of its volumes
	holders    holders                      // of persistent volumes
	localLocks keyedmutex.Mutex[string]     // by the path of a local volume
	swapWarned sync.Once                    // for the warning that memory may be swapped out
}

// New checks the configuration.
func New(c Config) (*Manager, error) {
	var err error
	for _, need := range []struct {
		ok   bool
		what string
	}{
		{filepath.IsAbs(c.PodsDir), "the directory of pods is not an absolute path"},
		{c.Objects != nil, "there is no source of objects"},
		{c.Mounter != nil, "there is nothing that mounts"},
		{c.CSI != nil, "CSI is required"},
		{c.Image != nil, "there is nothing that pulls images"},
		{c.NodeName != "", "the node has no name"},
		{c.NodeLabels != nil, "there are no labels of the node"},
		{c.Allocatable != nil, "it is not known what the node has to give"},
		{c.HostIPs != nil, "there are no addresses of the node"},
		{c.RecursiveReadOnly != nil, "it is not known whether the runtime can mount recursively read-only"},
		{c.Enqueue != nil, "Enqueue is required"},
		{c.Warn != nil, "users can't be warned"},
		{c.Timeout >= 0, "the timeout is negative"},
		{c.Log != nil, "there is no log"},
	} {
		if !need.ok {
			err = errors.Join(err, errors.New(need.what))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make the manager of volumes: %w", err)
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.PodsDir, err = realDir(c.PodsDir); err != nil {
		return nil, fmt.Errorf("make the manager of volumes: %w", err)
	}
	return &Manager{
		cfg: c, guard: newGuard(c.Timeout),
		pods: map[pod.UID]map[string]place{}, stuck: map[string]time.Time{}, waiting: map[pod.UID]map[pod.UID]bool{},
		readRecord: readRecord,
	}, nil
}

// realDir makes a directory and returns its path without symbolic links, as in the mount table.
func realDir(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// place is a volume that is set up: where it is, and its attributes for containers.
type place struct {
	path      string // on this machine; empty for an image
	image     string // the runtime's reference
	readOnly  bool   // even if the mount of a container is not
	relabel   bool   // the runtime may give it the SELinux label of the pod
	fixed     bool   // containers can't add files: a subPath that does not exist is an error
	block     bool   // volumeMode Block
	republish bool   // the CSI driver requires NodePublishVolume in every sync
	dir       string // below the pod's directory, to be unmounted with it; may be empty
	source    string // see sourceOf

	pv    string               // name of the PersistentVolume, if it is one
	grows *v1.PersistentVolume // of a CSI driver, as it was mounted; nil: it can't be expanded
	group *int64               // supplemental group that containers need
}

func (p place) isSetUp() bool { return p.path != "" || p.image != "" }

// job is one run of Setup, for one pod.
type job struct {
	m     *Manager
	pod   *v1.Pod
	dir   string // <PodsDir>/<uid>
	group int    // fsGroup, or -1
	facts downward.Facts
	task  *task
	claim *v1.PersistentVolumeClaim // whose volume is being set up; nil: the volume has none
	due   time.Time                 // the earliest time at which a volume needs another Setup
}

// Setup sets up all volumes of p that a container uses, with their current content. ips are the known
// addresses of the pod. due is when to call Setup again even if nothing changes; zero: never. An error
// is of type Errors or HungError.
func (m *Manager) Setup(ctx context.Context, p *v1.Pod, ips []string) (due time.Time, err error) {
	dir, err := m.podDir(p.UID)
	if err != nil {
		return time.Time{}, err
	}
	if len(p.Spec.Volumes) == 0 {
		return time.Time{}, nil
	}
	return guarded(ctx, m.guard, p.UID, func(ctx context.Context, t *task) (time.Time, error) {
		j := &job{
			m: m, pod: p, dir: dir, group: fsGroup(p), task: t,
			facts: downward.Facts{NodeName: m.cfg.NodeName, HostIPs: m.cfg.HostIPs(), PodIPs: ips},
		}
		err := j.run(ctx)
		return j.due, err
	})
}

func (j *job) run(ctx context.Context) error {
	var failed Errors
	used := usedVolumes(&j.pod.Spec)
	for i := range j.pod.Spec.Volumes {
		v := &j.pod.Spec.Volumes[i]
		if !used[v.Name] {
			continue // no container mounts it
		}
		j.task.setStep(fmt.Sprintf("set up volume %q", v.Name))
		_, there := j.m.loadPlace(j.pod.UID, v.Name)
		began := time.Now()
		at, err := j.volume(ctx, v)
		if !there && j.m.cfg.OnSetUp != nil {
			j.m.cfg.OnSetUp(j.pod, v, time.Since(began), err)
		}
		if err != nil {
			failed = append(failed, &Error{Volume: v.Name, Usable: at.isSetUp(), Err: err})
		}
		if at.isSetUp() {
			j.m.storePlace(j.pod.UID, v.Name, at)
		}
	}
	if len(failed) > 0 {
		return failed
	}
	return nil
}

// renew asks for another Setup at a time.
func (j *job) renew(at time.Time) {
	if !at.IsZero() && (j.due.IsZero() || at.Before(j.due)) {
		j.due = at
	}
}

func usedVolumes(s *v1.PodSpec) map[string]bool {
	used := map[string]bool{}
	for i := range s.InitContainers {
		addUsed(used, s.InitContainers[i].VolumeMounts, s.InitContainers[i].VolumeDevices)
	}
	for i := range s.Containers {
		addUsed(used, s.Containers[i].VolumeMounts, s.Containers[i].VolumeDevices)
	}
	for i := range s.EphemeralContainers {
		addUsed(used, s.EphemeralContainers[i].VolumeMounts, s.EphemeralContainers[i].VolumeDevices)
	}
	return used
}

func addUsed(used map[string]bool, mounts []v1.VolumeMount, devices []v1.VolumeDevice) {
	for _, m := range mounts {
		used[m.Name] = true
	}
	for _, d := range devices {
		used[d.Name] = true
	}
}

// podDir returns the directory of a pod. The UID of an orphan, from the runtime or from the disk, was
// not checked before.
func (m *Manager) podDir(uid pod.UID) (string, error) {
	if err := checkName(string(uid)); err != nil {
		return "", fmt.Errorf("the UID of a pod can't name a directory: %w", err)
	}
	return filepath.Join(m.cfg.PodsDir, string(uid)), nil
}

// checkName returns an error unless a name is a single component of a path.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("it is empty")
	case name == "." || name == "..", strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("%q is not a plain name", name)
	case len(name) > maxComponent:
		return fmt.Errorf("it is longer than %d bytes", maxComponent)
	default:
		return nil
	}
}
