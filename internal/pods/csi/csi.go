// Package csi mounts the volumes of CSI drivers for pods, and unmounts them again.
//
// A driver is a program on this machine that registers itself by a socket. The Manager calls its CSI
// node service: a volume is staged once for the machine, and published for each pod. The driver does
// all mounting.
//
// What always holds:
//   - A record is written into the pod's directory for the volume before the driver is called, and removed after
//     the driver has undone everything. The records of all pods say which volumes are staged: a volume is
//     unstaged with its last record. So a restart loses nothing.
//   - The index holds the content of all records in memory: to mount a volume for one pod, those of
//     others need not be read. See index for records that can't be read.
//   - A copy of the record lies beside the staging path of a volume, so that one damaged file loses
//     nothing. If neither can be read, the log says so, the volume stays attached, and no other is
//     affected.
//   - A volume that a cluster attaches is reported as in use before a pod mounts it, until its last record is
//     removed. So the cluster never detaches a mounted volume.
//   - Calls for one volume run one after the other.
//   - A call may be repeated at any time.
//   - Each call has a timeout. It goes on when its caller gives up: half of a driver's work would be in vain
//     otherwise. Only NodeExpandVolume ends with its caller, for which no pod has to wait.
//
// Only the Manager writes the records, the index, and the directories in which volumes are staged. It
// expects that nothing else makes or removes records while it runs: if the directory of a pod is
// removed by hand, its volumes stay staged until the next start of the agent.
package csi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"berth/internal/lib/keyedmutex"
	"berth/internal/lib/pod"
	"berth/internal/lib/statefile"
)

// Objects fetches the API objects that drivers and volumes need. If one does not exist,
// apierrors.IsNotFound holds for the error.
type Objects interface {
	CSIDriver(ctx context.Context, p *v1.Pod, name string) (*storagev1.CSIDriver, error)
	VolumeAttachment(ctx context.Context, p *v1.Pod, name string) (*storagev1.VolumeAttachment, error)
	SecretIn(ctx context.Context, p *v1.Pod, namespace, name string) (*v1.Secret, error)
	Token(ctx context.Context, p *v1.Pod, audience string, seconds int64) (token string, expires, refreshAt time.Time, err error)
}

// Config is checked by New.
type Config struct {
	PodsDir    string // a pod's directory is <PodsDir>/<uid>
	PluginsDir string // volumes are staged below it
	NodeName   string
	Objects    Objects
	Cluster    Cluster // nil without one
	// IsMount reports whether a path is a mount point.
	IsMount func(path string) (bool, error)
	// UnmountPath unmounts what is mounted on a path, without a driver.
	UnmountPath func(ctx context.Context, path string) error
	// Enqueue asks for a sync of a pod whose driver was registered, or whose volume was attached.
	Enqueue func(context.Context, pod.UID)
	// OnCall is called after each call to a driver, with the gRPC code of its answer, and whether it mounts
	// a migrated volume. It may be nil.
	OnCall func(driver, method, code string, migrated bool, took time.Duration)
	// OnLabel counts the labels of volumes of drivers that can mount with one. A warning is about a volume
	// that is not mounted with it. It may be nil.
	OnLabel func(outcome LabelOutcome, warning bool, driver, accessMode string)
	// CallTimeout is how long a driver may take for one call. Zero: 2 minutes.
	CallTimeout time.Duration
	Log         *slog.Logger
}

const defaultCallTimeout = 2 * time.Minute

// Manager knows the registered drivers, and calls them.
type Manager struct {
	Config

	mu      sync.Mutex
	drivers map[string]*driver
	gone    map[string]bool // drivers that were unregistered, and did not come back
	waiting map[string]map[pod.UID]bool
	wanted  map[volumeID]map[pod.UID]time.Time // by attachable volume: the pods that want it, and since when
	warned  map[string]bool                    // directories whose record is unreadable or missing, and was logged
	changed chan struct{}                      // capacity 1: a driver was registered or unregistered

	exhausted map[string]time.Time // by driver: the last error of an attachment to a full node
	toAsk     map[string]bool      // drivers whose limit has changed, according to such an error
	limitsDue chan struct{}        // capacity 1: toAsk has a driver, or one was registered

	// Replaced by tests that count reads.
	readRecord func(dir string) (*record, error)
	listDirs   func(dir string) ([]string, error)

	locks     keyedmutex.Mutex[volumeID]
	index     index
	reserveMu sync.Mutex // held from counting volumes to recording one more
	inUseMu   sync.Mutex // held from collecting the volumes in use to reporting them
}

// New checks the configuration.
func New(c Config) (*Manager, error) {
	if !filepath.IsAbs(c.PodsDir) || !filepath.IsAbs(c.PluginsDir) {
		return nil, errors.New("csi: the directories of pods and of plugins must be absolute paths")
	}
	if c.NodeName == "" || c.Objects == nil || c.IsMount == nil || c.UnmountPath == nil || c.Enqueue == nil || c.Log == nil {
		return nil, errors.New("csi: the name of the node, objects, isMount, unmountPath, enqueue and log are required")
	}
	if c.CallTimeout < 0 {
		return nil, errors.New("csi: the timeout is negative")
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = defaultCallTimeout
	}
	// Without symbolic links, since paths of volumes are compared with it. On a full disk the
	// directory may be missing; then no pod has a volume either.
	err := os.MkdirAll(c.PodsDir, 0o750)
	if resolved, evalErr := filepath.EvalSymlinks(c.PodsDir); evalErr == nil {
		c.PodsDir = resolved
	} else if !statefile.CantWrite(err) {
		return nil, fmt.Errorf("csi: %w", errors.Join(err, evalErr))
	}
	m := &Manager{
		Config: c, drivers: map[string]*driver{}, gone: map[string]bool{}, waiting: map[string]map[pod.UID]bool{},
		wanted: map[volumeID]map[pod.UID]time.Time{}, warned: map[string]bool{}, changed: make(chan struct{}, 1),
		exhausted: map[string]time.Time{}, toAsk: map[string]bool{}, limitsDue: make(chan struct{}, 1),
		readRecord: readRecord, listDirs: listDirs, index: index{onDisk: newOnDisk()},
	}
	m.reportInUse()
	return m, nil
}

// volumeID is the driver of a volume and the driver's handle of it.
type volumeID struct{ driver, handle string }

func (v volumeID) String() string {
	return fmt.Sprintf("volume %q of CSI driver %q", v.handle, v.driver)
}

// lockVolume waits for the lock of a volume, and returns the function that unlocks it.
func (m *Manager) lockVolume(ctx context.Context, v volumeID) (unlock func(), err error) {
	unlock, err = m.locks.Lock(ctx, v)
	if err != nil {
		return nil, fmt.Errorf("%s is being mounted or unmounted for another pod: %w", v, err)
	}
	return unlock, nil
}

// Waiting is the error of a step that has to wait for another component, which does not announce
// when it is done.
type Waiting struct{ What string }

func (e *Waiting) Error() string { return "waiting for " + e.What }

// AttachLimitExceeded is the error of a volume that can't be attached, because this node has as many as its
// driver allows. The pod should run on another node.
type AttachLimitExceeded struct{ Message string }

func (e *AttachLimitExceeded) Error() string {
	return "the volume can't be attached to this node: " + e.Message
}
