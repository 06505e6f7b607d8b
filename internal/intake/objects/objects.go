// Package objects fetches the objects that pods refer to: ConfigMaps, Secrets, tokens of service
// accounts, RuntimeClasses, Services, persistent volumes with their claims, and the
// certificates that a cluster trusts.
//
// There are two providers with the same getters. API reads from an API server. Local has
// the objects of manifests, for static pods, and binds volumes to claims there; Collector
// brings it the objects of all sources. Provider chooses between the two by pod.
//
// Execution registers each pod that runs. When an object that a registered pod refers to
// has changed in content, the provider calls Enqueue with the pod's UID; the getters
// return the new version.
//
// A node may not watch all ConfigMaps and Secrets of a cluster, only those that its
// pods refer to, each by its name. So API has a watch for each of them, which begins
// with the first pod that refers to the object and ends with the last one.
//
// Only the providers write to their tables. The objects that getters return are shared and
// must not be changed. The content of a Secret, and a token, are returned by getters only,
// and are never part of an error or a log.
package objects

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	certificatesv1client "k8s.io/client-go/kubernetes/typed/certificates/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	nodev1client "k8s.io/client-go/kubernetes/typed/node/v1"
	storagev1client "k8s.io/client-go/kubernetes/typed/storage/v1"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// getTimeout is how long a getter waits for the API server.
const getTimeout = 10 * time.Second

// Client is the part of a clientset that API uses.
type Client interface {
	CoreV1() corev1.CoreV1Interface
	NodeV1() nodev1client.NodeV1Interface
	StorageV1() storagev1client.StorageV1Interface
	CertificatesV1() certificatesv1client.CertificatesV1Interface
}

// APIConfig configures an API.
type APIConfig struct {
	Client Client
	Log    *slog.Logger
	// Enqueue is called for each pod that refers to an object that changed. It may block
	// while the loop is busy, and must return when its context ends.
	Enqueue func(context.Context, pod.UID)
}

// API provides the objects of an API server.
type API struct {
	APIConfig
	outage   *outage
	classes  *collection[*nodev1.RuntimeClass]
	services *collection[*v1.Service]

	mu      sync.Mutex
	group   *run.Group // of the watches; nil while Run does not run
	pods    map[pod.UID]*registration
	objects map[ref]*watched // ConfigMaps and Secrets that a registered pod refers to

	trustWatch trustWatch
}

// registration holds the references and the tokens of a registered pod.
type registration struct {
	refs   map[ref]bool
	class  string // its RuntimeClass, or ""
	tokens map[tokenKey]*token
}

// NewAPI checks the configuration. No request is made before Run.
func NewAPI(c APIConfig) (*API, error) {
	if c.Client == nil || c.Log == nil || c.Enqueue == nil {
		return nil, errors.New("references to objects of the API server: client, log and enqueue are required")
	}
	return &API{
		APIConfig:  c,
		outage:     newOutage(c.Log),
		classes:    newCollection(leanClass, sameClass),
		services:   newCollection(leanService, nil),
		pods:       map[pod.UID]*registration{},
		objects:    map[ref]*watched{},
		trustWatch: trustWatch{pods: map[pod.UID]bool{}},
	}, nil
}

// Run watches the objects that registered pods refer to, until the context ends.
func (a *API) Run(ctx context.Context) {
	group := run.NewGroup(ctx, a.Log)
	defer group.Stop()

	a.mu.Lock()
	a.group = group
	for _, w := range a.objects {
		a.start(w)
	}
	a.startTrustWatch()
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.group = nil // Register starts no watch from now on
		a.mu.Unlock()
	}()

	group.Go("watch of runtime classes", func(ctx context.Context) { a.followClasses(ctx) })
	group.Go("watch of services", func(ctx context.Context) { a.followServices(ctx) })
	<-ctx.Done()
}

// Synced is closed once the Services were read for the first time. A container that
// starts before would lack their variables.
func (a *API) Synced() <-chan struct{} { return a.services.synced }

// Register watches the objects that a pod refers to. It is called with every new version
// of a pod that is to run, is idempotent, and never waits.
func (a *API) Register(p *v1.Pod) {
	wanted := watchedRefsOf(p)
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.pods[p.UID]
	if r == nil {
		r = &registration{tokens: map[tokenKey]*token{}}
		a.pods[p.UID] = r
	}
	for to := range wanted {
		if !r.refs[to] {
			a.addReference(p.UID, to)
		}
	}
	for to := range r.refs {
		if !wanted[to] {
			a.dropReference(p.UID, to)
		}
	}
	r.refs, r.class = wanted, RuntimeClassOf(p)
	a.updateTrustWatch(p.UID, usesTrustBundles(p))
}

// Unregister forgets a pod, and drops its tokens.
func (a *API) Unregister(uid pod.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.pods[uid]
	if r == nil {
		return
	}
	delete(a.pods, uid)
	for to := range r.refs {
		a.dropReference(uid, to)
	}
	a.updateTrustWatch(uid, false)
}

// watchedRefsOf returns the ConfigMaps and Secrets that a pod refers to: they are watched
// by name.
func watchedRefsOf(p *v1.Pod) map[ref]bool {
	out := map[ref]bool{}
	for _, name := range ConfigMapsOf(p) {
		out[ref{configMap, p.Namespace, name}] = true
	}
	for _, name := range SecretsOf(p) {
		out[ref{secret, p.Namespace, name}] = true
	}
	return out
}

// enqueueAll calls Enqueue for some pods. The caller holds no lock: it may block.
func (a *API) enqueueAll(ctx context.Context, uids []pod.UID) {
	for _, uid := range uids {
		a.Enqueue(ctx, uid)
	}
}

// sorted returns the members of a set of UIDs, sorted.
func sorted(uids map[pod.UID]bool) []pod.UID { return slices.Sorted(maps.Keys(uids)) }
