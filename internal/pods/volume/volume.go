// Package volume makes the volumes of pods: it is the only writer below
// <pods>/<uid>/volumes, <pods>/<uid>/volume-subpaths and <pods>/<uid>/volume-sources.
//
// Setup brings every volume of a pod to what it should be, and is called in every
// sync: it compares, and writes only what differs. Mounts and Devices say what one
// container is shown. Teardown undoes everything; it knows nothing but the disk and the
// mounts there, so it works after a restart and for pods that nobody remembers.
//
// What always holds:
//   - A directory is there before something is mounted on it, so whatever is
//     mounted is found again below the pod's directory.
//   - The files of a configMap, secret, downwardAPI or projected volume change all
//     at once: readers go through one symbolic link, which is swapped.
//   - Secrets and tokens are held in memory, never on the disk. Where the kernel may swap
//     them out nevertheless, that is told.
//   - A name from outside becomes a path only after it was checked, and a path in a
//     volume is opened by the kernel such that it can't leave the volume.
//   - Nothing is removed across a mount point or through a symbolic link.
//   - Whatever touches a file system runs in a guard: one that hangs keeps its own
//     pod waiting, and nobody else. Before the runtime is shown a path, it is looked
//     at here, so that it hangs here.
//   - A volume of which the source was edited is another one, see edited.go.
//   - A volume that is for one pod is had by one, see hold.go.
//
// Volumes of CSI drivers are brought and taken away by the drivers, see package csi;
// images are shown by the runtime.
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
	"berth/internal/lib/pod"
	"berth/internal/pods/csi"
)

// Objects are what pods refer to. An object that is not there is an error for
// which apierrors.IsNotFound holds.
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

// CSI brings volumes by the drivers of this machine.
type CSI interface {
	// Mount may be called again, and does nothing if there is nothing to be done.
	Mount(ctx context.Context, r csi.Request) (csi.Mounted, error)
	// Unmount takes away what is in the directory of a volume. It knows nothing but
	// the disk, and is fine if nothing is there.
	Unmount(ctx context.Context, uid pod.UID, dir string, say func(string)) error
	// Forget is told that a pod wants no volume any more.
	Forget(uid pod.UID)
}

// Config is what volumes need of the world.
type Config struct {
	PodsDir string // a pod's directory is <PodsDir>/<uid>
	Objects Objects
	Mounter Mounter
	CSI     CSI
	// Image returns the name by which the runtime knows the image of a volume. If it is
	// not there, it says why, and when to ask again; zero: somebody will tell the pod.
	Image func(ctx context.Context, p *v1.Pod, volume string, s *v1.ImageVolumeSource) (ref string, again time.Time, err error)

	NodeName    string
	NodeLabels  func() map[string]string // of this node; a local volume may be bound to some
	Allocatable func() v1.ResourceList   // what the node has to give
	HostIPs     func() []string

	// RecursiveReadOnly tells whether the runtime of a pod can make a mount read-only
	// with all that is below it.
	RecursiveReadOnly func(*v1.Pod) bool

	// Enqueue is told the pods that need not wait for a volume any more.
	Enqueue func(context.Context, pod.UID)
	// Warn tells the users of a pod of something that is not as they may expect.
	Warn func(p *v1.Pod, reason, message string)
	// OnSetUp is told of each attempt to set up a volume that was not there. It may be nil.
	OnSetUp func(v *v1.Volume, took time.Duration, err error)

	// Timeout is how long a call waits for a file system before it says that it
	// hangs. Zero: 20 s.
	Timeout time.Duration
	Log     *slog.Logger
}

const defaultTimeout = 20 * time.Second

// Manager makes and removes volumes. It may be used from several goroutines; what
// is done to one pod is done one after the other.
type Manager struct {
	cfg   Config
	guard *guard

	// How a record is read. Tests count it.
	readRecord func(podsDir string, uid pod.UID, volume string) (record, error)

	mu    sync.Mutex
	pods  map[pod.UID]map[string]place // the volumes that are set up, by name
	stuck map[string]time.Time         // mounts that did not go, and since when

	holdMu     sync.Mutex                   // held from looking who has a volume to writing down who has it now
	waiting    map[pod.UID]map[pod.UID]bool // for a pod to let go of a volume: others
	holders    holders                      // of persistent volumes
	localLocks keyedMutex                   // at directories of the machine that are volumes
	swapWarned sync.Once                    // it was told that memory may be swapped out
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
		{c.CSI != nil, "there is nobody who asks CSI drivers"},
		{c.Image != nil, "there is nothing that pulls images"},
		{c.NodeName != "", "the node has no name"},
		{c.NodeLabels != nil, "there are no labels of the node"},
		{c.Allocatable != nil, "it is not known what the node has to give"},
		{c.HostIPs != nil, "there are no addresses of the node"},
		{c.RecursiveReadOnly != nil, "it is not known whether the runtime can mount recursively read-only"},
		{c.Enqueue != nil, "nobody is told that a volume can be had"},
		{c.Warn != nil, "users can't be warned"},
		{c.Timeout >= 0, "patience is negative"},
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
		localLocks: keyedMutex{held: map[string]chan struct{}{}}, readRecord: readRecord,
	}, nil
}

// realDir makes a directory and returns it as the mount table names it.
func realDir(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// place is where a volume is, and what containers may do there.
type place struct {
	path      string // of the machine; empty if it is an image
	image     string // as the runtime names it
	readOnly  bool   // whatever the container asks for
	relabel   bool   // made for this pod, and written to, or by us: it may be given the pod's SELinux label
	fixed     bool   // its content is given: a subPath that is not there is a mistake
	block     bool   // a device, without a file system
	republish bool   // whoever made it wants to be asked in each round
	dir       string // of the pod, to be taken away with it; empty: there is nothing of it there
	source    string // what it was made of, see sourceOf

	pv    string // the persistent volume that it is
	group *int64 // that may use it, and in which containers have to be
}

// isSetUp tells whether there is anything.
func (p place) isSetUp() bool { return p.path != "" || p.image != "" }

// job is one round of setting up the volumes of one pod.
type job struct {
	m     *Manager
	pod   *v1.Pod
	dir   string // of the pod
	group int    // fsGroup, or -1
	facts downward.Facts
	task  *task
	due   time.Time // the earliest moment at which something wants to be renewed
}

// Setup makes all volumes of p be there, with their newest content. ips are the
// addresses of the pod, as far as they are known. due is when to call it again
// even if nothing happens; zero is never. An error is of type Errors, or tells that
// a file system hangs.
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
			continue // nobody would see it, so nothing should wait for it
		}
		j.task.setStep(fmt.Sprintf("set up volume %q", v.Name))
		_, there := j.m.loadPlace(j.pod.UID, v.Name)
		began := time.Now()
		at, err := j.volume(ctx, v)
		if !there && j.m.cfg.OnSetUp != nil {
			j.m.cfg.OnSetUp(v, time.Since(began), err)
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

// renew asks for another round at a time.
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

// podDir is where everything of a pod is. The UID of an orphan comes from the
// runtime or from the disk, and nobody has checked it.
func (m *Manager) podDir(uid pod.UID) (string, error) {
	if err := checkName(string(uid)); err != nil {
		return "", fmt.Errorf("the UID of a pod can't name a directory: %w", err)
	}
	return filepath.Join(m.cfg.PodsDir, string(uid)), nil
}

// checkName accepts what is one component of a path and nothing else.
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
