// Package expansion grows the volumes of CSI drivers on this machine (NodeExpandVolume), after a resizer of
// the cluster has grown their PersistentVolumes.
//
// A volume is expanded when it is mounted (AtMount), or while pods use it (Online). The driver does the
// work; the status of the claim gets the new size. decide has the rules.
//
// What always holds:
//   - A running pod never waits for an expansion. A pod that is being started does, until the driver has
//     expanded the volume or says that it can't be done while the volume is in use.
//   - The size of a volume on this machine is in its CSI record, so that a restart repeats nothing, and
//     misses no expansion that another node reported meanwhile.
//   - A claim is changed only if it is still as it was read.
//
// A node may not watch claims, only get those of its pods: they are read about once a minute.
package expansion

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/backoff"
	"berth/internal/lib/logonce"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/pods/csi"
)

// Drivers calls the CSI drivers of this machine.
type Drivers interface {
	// CanExpand reports whether a driver may have NodeExpandVolume.
	CanExpand(driver string) bool
	// Expand lets the driver grow a mounted volume. The call ends with the context.
	Expand(ctx context.Context, e csi.Expansion) error
	// Size returns the size of a volume on this machine, in bytes; 0: it is not known.
	Size(driver, handle string) (int64, error)
	SetSize(ctx context.Context, driver, handle string, bytes int64) error
}

// Objects gets the claims of pods and their volumes.
type Objects interface {
	PersistentVolumeClaim(ctx context.Context, p *v1.Pod, name string) (*v1.PersistentVolumeClaim, error)
	PersistentVolume(ctx context.Context, p *v1.Pod, name string) (*v1.PersistentVolume, error)
}

// Config is checked by New.
type Config struct {
	NodeName string
	Drivers  Drivers
	Objects  Objects
	// PatchStatus applies a strategic merge patch to the status of a claim.
	PatchStatus func(ctx context.Context, namespace, name string, patch []byte) (*v1.PersistentVolumeClaim, error)
	// Record records an event of a pod, and of its claim unless that is nil.
	Record func(p *v1.Pod, claim *v1.PersistentVolumeClaim, kind, reason, message string)
	// Enqueue asks for a sync of a pod, which calls Online again.
	Enqueue func(context.Context, pod.UID)
	// Group runs the expansions of mounted volumes.
	Group *run.Group
	Log   *slog.Logger
}

// Expander expands volumes. It may be used from several goroutines.
type Expander struct {
	Config

	mu      sync.Mutex
	volumes map[string]*volume // by the name of the PersistentVolume
}

// New checks the configuration.
func New(c Config) (*Expander, error) {
	if c.NodeName == "" || c.Drivers == nil || c.Objects == nil || c.PatchStatus == nil || c.Record == nil || c.Enqueue == nil || c.Group == nil || c.Log == nil {
		return nil, errors.New("expansion: the name of the node, drivers, objects, patchStatus, record, enqueue, group and log are required")
	}
	return &Expander{Config: c, volumes: map[string]*volume{}}, nil
}

// Volume is a persistent volume of a CSI driver that is mounted for a pod.
type Volume struct {
	Pod      *v1.Pod
	Claim    string               // in the namespace of the pod
	PV       *v1.PersistentVolume // as it was when it was mounted
	Dir      string               // below the pod's directory
	ReadOnly bool
}

// volume is what the Expander remembers of a volume while pods have it.
type volume struct {
	pods   map[pod.UID]bool
	busy   bool      // an expansion runs, or the claim is being read
	due    time.Time // of the next look at the claim
	streak logonce.Streak

	failures int
	// failedFinally says that the driver has refused to expand the volume.
	failedFinally bool
	// inUse says that the driver can't expand the volume while it is in use.
	inUse bool
}

// checkPause is the time between two looks at the claim of a mounted volume.
var checkPause = backoff.Exponential{First: time.Minute, Max: time.Minute}

// retryPause is the time until the next attempt after an expansion that failed.
var retryPause = backoff.Exponential{First: time.Second, Max: 2 * time.Minute}

// apiTimeout is how long the API server may take.
const apiTimeout = 10 * time.Second

// nextCheck spreads the looks of the volumes of a machine over half a minute.
func nextCheck() time.Time { return time.Now().Add(checkPause.Lengthened(1, 0.5)) }

// volumeOf returns the state of a volume that a pod has.
func (e *Expander) volumeOf(v *Volume) *volume {
	s := e.volumes[v.PV.Name]
	if s == nil {
		s = &volume{pods: map[pod.UID]bool{}}
		e.volumes[v.PV.Name] = s
	}
	s.pods[v.Pod.UID] = true
	return s
}

// Forget removes a pod whose volumes are unmounted.
func (e *Expander) Forget(uid pod.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, s := range e.volumes {
		if delete(s.pods, uid); len(s.pods) == 0 {
			delete(e.volumes, name)
		}
	}
}
