// Package upstream sends the statuses of pods and the mirrors of static pods to the API server.
//
// The status writer is called for a pod in the order in which the pod changes in the desired set.
package upstream

import (
	"errors"
	"sync"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// Desired is the set of pods that the node is asked to run.
type Desired interface {
	Get(uid pod.UID) (*v1.Pod, bool)
	// MirrorOf returns the mirror pod of a static pod, as it was last seen at the API server.
	MirrorOf(static *v1.Pod) (*v1.Pod, bool)
}

// Writer writes statuses to the API server. Its methods never block.
type Writer interface {
	Write(p *v1.Pod, s v1.PodStatus)
	Delete(p *v1.Pod)
	Forget(uid pod.UID)
}

// Mirrors keeps the mirror pods of static pods. Its methods never block.
type Mirrors interface {
	Ensure(static, mirror *v1.Pod)
	Delete(mirror *v1.Pod)
}

// Config configures an Upstream.
type Config struct {
	Desired Desired
	Writer  Writer
	Mirrors Mirrors
}

// Upstream is the API server, as the receiver of statuses and mirror pods.
type Upstream struct {
	cfg Config
	// writing is held from a read of the desired set until the writer has been called: a pod that
	// was forgotten does not come back, and no version comes after a newer one.
	writing sync.Mutex
}

// New returns an Upstream.
func New(c Config) (*Upstream, error) {
	if c.Desired == nil || c.Writer == nil || c.Mirrors == nil {
		return nil, errors.New("upstream: desired, writer and mirrors are required")
	}
	return &Upstream{cfg: c}, nil
}

// Publish writes the status of a pod to the API server, that of a static pod to
// its mirror.
func (u *Upstream) Publish(p *v1.Pod, s v1.PodStatus) {
	u.writing.Lock()
	defer u.writing.Unlock()
	there, ok := u.cfg.Desired.Get(p.UID)
	if ok && pod.IsStatic(p) {
		there, ok = u.cfg.Desired.MirrorOf(p)
	}
	if ok {
		u.cfg.Writer.Write(there, s)
	}
}

// Release deletes a pod from the API server of which nothing is left on this node. A pod that was
// deleted by force is not at the API server any more.
func (u *Upstream) Release(p *v1.Pod) {
	u.writing.Lock()
	defer u.writing.Unlock()
	if _, there := u.cfg.Desired.Get(p.UID); there && !pod.IsStatic(p) {
		u.cfg.Writer.Delete(p)
	}
}

// Mirror creates or renews the mirror of a static pod.
func (u *Upstream) Mirror(p *v1.Pod) {
	there, _ := u.cfg.Desired.MirrorOf(p)
	u.cfg.Mirrors.Ensure(p, there)
}

// Unmirror deletes a mirror pod whose static pod is gone.
func (u *Upstream) Unmirror(mirrorPod *v1.Pod) { u.cfg.Mirrors.Delete(mirrorPod) }

// Forget drops the state of a pod that is gone from the API server and no longer desired.
func (u *Upstream) Forget(uid pod.UID) {
	u.writing.Lock()
	defer u.writing.Unlock()
	u.cfg.Writer.Forget(uid)
}
