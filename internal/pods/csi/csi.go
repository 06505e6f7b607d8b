// Package csi brings the volumes of CSI drivers to pods, and takes them away again.
//
// A driver is a program on this machine that registers itself, and is told over its
// socket what to do: to stage a volume once for the machine, and to publish it for
// each pod. It does all mounting.
//
// What always holds:
//   - A record lies in a pod's directory, beside the place of a volume if it is no
//     device, before its driver is asked for anything, and until it has undone all of it.
//     The records of all pods tell which volumes are staged: a volume is unstaged with its
//     last record. So nothing but the disk has to be remembered over a restart.
//   - The index says what the records say, in memory: a volume costs a pod as much as if
//     it had the only one. See there for records that can't be read.
//   - Another record lies beside the place where a volume is staged, or would be: a file
//     that can't be read loses nothing. If neither can be read, the log says so, the volume
//     stays attached, and nobody else is held up.
//   - A volume that a cluster attaches is in use from the moment on in which a pod wants
//     it, until its last record is gone. The cluster knows that before anything is
//     mounted, and so never detaches what is.
//   - What is done to one volume is done one after the other.
//   - A driver may be asked for the same thing again at any time.
//   - Each call has a deadline. It goes on when the one who waits for it gives up:
//     a driver does half of its work in vain otherwise.
//
// Only the Manager writes the records, the index of them, and the directories in which
// volumes are staged. It does not expect that anybody else makes a record, or removes one,
// while it runs: a volume whose pod's directory was removed by hand stays staged until the
// next agent starts.
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

	"berth/internal/lib/pod"
	"berth/internal/lib/statefile"
)

// Objects are what drivers and volumes are described by. One that does not exist is an
// error for which apierrors.IsNotFound holds.
type Objects interface {
	CSIDriver(ctx context.Context, p *v1.Pod, name string) (*storagev1.CSIDriver, error)
	VolumeAttachment(ctx context.Context, p *v1.Pod, name string) (*storagev1.VolumeAttachment, error)
	SecretIn(ctx context.Context, p *v1.Pod, namespace, name string) (*v1.Secret, error)
	Token(ctx context.Context, p *v1.Pod, audience string, seconds int64) (token string, expires, refreshAt time.Time, err error)
}

// Config is what a Manager is made of.
type Config struct {
	PodsDir    string // a pod's directory is <PodsDir>/<uid>
	PluginsDir string // volumes are staged below it
	NodeName   string
	Objects    Objects
	Cluster    Cluster // nil without one
	// IsMount tells whether something is mounted on a path.
	IsMount func(path string) (bool, error)
	// UnmountPath unmounts what is mounted on a path, without a driver.
	UnmountPath func(ctx context.Context, path string) error
	// Enqueue is told the pods whose driver has come.
	Enqueue func(context.Context, pod.UID)
	// OnCall is told of each call: which one, and what the driver answered, as a code
	// of gRPC. It may be nil.
	OnCall func(driver, method, code string, took time.Duration)
	// CallTimeout is how long a driver may take for one call. Zero: 2 minutes.
	CallTimeout time.Duration
	Log         *slog.Logger
}

const defaultCallTimeout = 2 * time.Minute

// Manager asks drivers.
type Manager struct {
	Config

	mu      sync.Mutex
	drivers map[string]*driver
	gone    map[string]bool // drivers that were unregistered, and did not come back
	waiting map[string]map[pod.UID]bool
	wanted  map[volumeID]map[pod.UID]bool // volumes that the cluster attaches
	warned  map[string]bool               // directories whose record can't be read, or is not there; it is told
	locks   map[volumeID]*volumeLock
	changed chan struct{} // capacity 1: drivers are others now

	// How the disk is read. Tests count it.
	readRecord func(dir string) (*record, error)
	listDirs   func(dir string) ([]string, error)

	index     index
	reserveMu sync.Mutex // held from counting volumes to writing one more down
	inUseMu   sync.Mutex // held from looking what is in use to telling it
}

// New checks the configuration.
func New(c Config) (*Manager, error) {
	if !filepath.IsAbs(c.PodsDir) || !filepath.IsAbs(c.PluginsDir) {
		return nil, errors.New("csi: the directories of pods and of plugins must be absolute paths")
	}
	if c.NodeName == "" || c.Objects == nil || c.IsMount == nil || c.UnmountPath == nil || c.Enqueue == nil || c.Log == nil {
		return nil, errors.New("csi: the name of the node, objects, isMount, takeOff, wake and log are required")
	}
	if c.CallTimeout < 0 {
		return nil, errors.New("csi: patience is negative")
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = defaultCallTimeout
	}
	// As those who ask for volumes name it: a path is compared with theirs. If there is no
	// room for the directory, no pod has a volume either.
	err := os.MkdirAll(c.PodsDir, 0o750)
	if resolved, evalErr := filepath.EvalSymlinks(c.PodsDir); evalErr == nil {
		c.PodsDir = resolved
	} else if !statefile.CantWrite(err) {
		return nil, fmt.Errorf("csi: %w", errors.Join(err, evalErr))
	}
	m := &Manager{
		Config: c, drivers: map[string]*driver{}, gone: map[string]bool{}, waiting: map[string]map[pod.UID]bool{},
		wanted: map[volumeID]map[pod.UID]bool{}, warned: map[string]bool{}, locks: map[volumeID]*volumeLock{}, changed: make(chan struct{}, 1),
		readRecord: readRecord, listDirs: listDirs, index: index{onDisk: newOnDisk()},
	}
	m.reportInUse()
	return m, nil
}

// volumeID names a volume on this machine.
type volumeID struct{ driver, handle string }

func (v volumeID) String() string {
	return fmt.Sprintf("volume %q of CSI driver %q", v.handle, v.driver)
}

// volumeLock is the right to do something to a volume. Whoever has put something into slot
// has it.
type volumeLock struct {
	held  chan struct{} // capacity 1
	users int           // that have it or wait for it
}

// lockVolume waits for the turn at a volume, and returns how to give it back.
func (m *Manager) lockVolume(ctx context.Context, v volumeID) (release func(), err error) {
	m.mu.Lock()
	t := m.locks[v]
	if t == nil {
		t = &volumeLock{held: make(chan struct{}, 1)}
		m.locks[v] = t
	}
	t.users++
	m.mu.Unlock()
	leave := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(m.locks, v)
		}
	}
	select {
	case t.held <- struct{}{}:
		return func() { <-t.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, fmt.Errorf("%s is being mounted or unmounted for another pod: %w", v, context.Cause(ctx))
	}
}

// Waiting is an error about something that others have yet to do, and of which nobody
// tells when it is done.
type Waiting struct{ What string }

func (e *Waiting) Error() string { return "waiting for " + e.What }
