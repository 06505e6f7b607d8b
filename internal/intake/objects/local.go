package objects

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"berth/internal/lib/pod"
	"berth/internal/lib/statefile"
)

// LocalConfig configures a Local.
type LocalConfig struct {
	Log *slog.Logger
	// Enqueue is called for each pod that refers to an object that changed.
	Enqueue func(context.Context, pod.UID)

	// State is the file that keeps the bindings of claims to volumes; nil for none. It has
	// to survive a power cut.
	State *statefile.File
	// NodeName and NodeLabels decide which volumes are on this machine. Without
	// NodeLabels the node has no labels.
	NodeName   string
	NodeLabels func() map[string]string
}

// Local provides the objects of manifests. Nothing is fetched, so no getter waits. It
// binds volumes to claims, see bind.
type Local struct {
	LocalConfig
	memory bindingFile

	mu      sync.Mutex
	objects map[ref]object
	unbound map[ref]string           // claims that have no volume, with the reason
	pods    map[pod.UID]map[ref]bool // the references of registered pods

	setting sync.Mutex // serializes Set
	bound   bindings
}

// NewLocal checks the configuration, and reads the bindings. There is no object before Set.
func NewLocal(c LocalConfig) (*Local, error) {
	if c.Log == nil || c.Enqueue == nil {
		return nil, errors.New("references to objects of manifests: log and enqueue are required")
	}
	l := &Local{LocalConfig: c, memory: bindingFile{file: c.State}, objects: map[ref]object{}, pods: map[pod.UID]map[ref]bool{}}
	l.bound = l.memory.load(c.Log)
	return l, nil
}

// Set replaces all objects: ConfigMaps, Secrets, RuntimeClasses, PersistentVolumes and
// PersistentVolumeClaims, each with its defaults. It calls Enqueue for the registered
// pods that refer to a changed object. Of two objects of the same kind and name the later
// one counts; sources and Collector leave out such duplicates before.
func (l *Local) Set(ctx context.Context, objects []runtime.Object) {
	l.setting.Lock()
	defer l.setting.Unlock()
	next := make(map[ref]object, len(objects))
	for _, given := range objects {
		r, o := localObject(given)
		if o == nil {
			l.Log.Warn("pods can't refer to an object of this type; it is left out", "type", fmt.Sprintf("%T", given))
			continue
		}
		next[r] = o
	}
	unbound := l.bindAll(next)
	l.mu.Lock()
	pods := l.affected(next, unbound)
	l.objects, l.unbound = next, unbound
	l.mu.Unlock()
	for _, uid := range pods {
		l.Enqueue(ctx, uid)
	}
}

// localObject returns an object of a manifest with its reference, or nil if its kind is
// none that pods can refer to.
func localObject(given runtime.Object) (ref, object) {
	switch o := given.(type) {
	case *v1.ConfigMap:
		return ref{configMap, o.Namespace, o.Name}, o
	case *v1.Secret:
		return ref{secret, o.Namespace, o.Name}, o
	case *v1.PersistentVolumeClaim:
		return ref{claim, o.Namespace, o.Name}, o
	case *v1.PersistentVolume:
		return ref{kind: volume, name: o.Name}, o
	case *nodev1.RuntimeClass:
		return ref{kind: runtimeClass, name: o.Name}, o
	default:
		return ref{}, nil
	}
}

// bindAll binds the claims among objects: their copies in objects name their volumes. It
// returns the reasons of claims that have none. The bindings are on disk before a getter
// returns them, unless the disk can't be written.
func (l *Local) bindAll(objects map[ref]object) map[ref]string {
	var claims []*v1.PersistentVolumeClaim
	var volumes []*v1.PersistentVolume
	for _, o := range objects {
		switch o := o.(type) {
		case *v1.PersistentVolumeClaim:
			claims = append(claims, o)
		case *v1.PersistentVolume:
			volumes = append(volumes, o)
		}
	}
	bound, refused := bind(l.bound, claims, volumes, l.onThisNode)
	if err := l.memory.save(bound); err != nil {
		l.Log.Warn("which claim has which volume is not remembered over a restart", "err", err)
	}
	l.bound = bound

	unbound := map[ref]string{}
	for _, c := range claims {
		r, name := ref{claim, c.Namespace, c.Name}, nameOf(c)
		if why := refused[name]; why != "" {
			unbound[r] = why
			continue
		}
		given := *c
		given.Spec.VolumeName = bound[name]
		objects[r] = &given
	}
	return unbound
}

// onThisNode reports whether a volume can be used on this machine.
func (l *Local) onThisNode(v *v1.PersistentVolume) bool {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(v.Spec.NodeAffinity.Required)
	if err != nil {
		return false
	}
	this := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.NodeName}}
	if l.NodeLabels != nil {
		this.Labels = l.NodeLabels()
	}
	return selector.Match(this)
}

// affected returns the registered pods that refer to an object that differs in next. The
// lock is held.
func (l *Local) affected(next map[ref]object, unbound map[ref]string) []pod.UID {
	changed := map[ref]bool{}
	for _, objects := range []map[ref]object{l.objects, next} {
		for r, o := range objects {
			if !same(l.objects[r], next[r]) || (l.unbound[r] == "") != (unbound[r] == "") {
				changed[r] = true
			}
			// Pods refer to a volume only through their claims.
			if c, ok := o.(*v1.PersistentVolumeClaim); ok {
				v := ref{kind: volume, name: c.Spec.VolumeName}
				changed[r] = changed[r] || !same(l.objects[v], next[v])
			}
		}
	}
	uids := map[pod.UID]bool{}
	for uid, refs := range l.pods {
		for r := range refs {
			if changed[r] {
				uids[uid] = true
			}
		}
	}
	return sorted(uids)
}

// Register records the references of a pod.
func (l *Local) Register(p *v1.Pod) {
	refs := watchedRefsOf(p)
	for _, name := range ClaimsOf(p) {
		refs[ref{claim, p.Namespace, name}] = true
	}
	if class := RuntimeClassOf(p); class != "" {
		refs[ref{kind: runtimeClass, name: class}] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pods[p.UID] = refs
}

// Unregister forgets a pod.
func (l *Local) Unregister(uid pod.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pods, uid)
}

func (l *Local) read(r ref) (object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.objects[r]; o != nil {
		return o, nil
	}
	hint := ": put it into a manifest"
	if r.namespace != "" {
		hint += ", in namespace " + r.namespace
	}
	return nil, r.notFound(hint)
}

// ConfigMap returns a ConfigMap of the folder.
func (l *Local) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return typed[*v1.ConfigMap](l.read(ref{configMap, namespace, name}))
}

// Secret returns a Secret of the folder.
func (l *Local) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	return typed[*v1.Secret](l.read(ref{secret, namespace, name}))
}

// RuntimeClass returns a RuntimeClass of the folder.
func (l *Local) RuntimeClass(_ context.Context, name string) (*nodev1.RuntimeClass, error) {
	return l.class(name)
}

func (l *Local) class(name string) (*nodev1.RuntimeClass, error) {
	return typed[*nodev1.RuntimeClass](l.read(ref{kind: runtimeClass, name: name}))
}

// PersistentVolumeClaim returns a claim of the folder, which names its volume.
func (l *Local) PersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	r := ref{claim, namespace, name}
	l.mu.Lock()
	why := l.unbound[r]
	l.mu.Unlock()
	if why != "" {
		return nil, fmt.Errorf("it has no volume: %s", why)
	}
	return typed[*v1.PersistentVolumeClaim](l.read(r))
}

// PersistentVolume returns a volume of the folder.
func (l *Local) PersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	return typed[*v1.PersistentVolume](l.read(ref{kind: volume, name: name}))
}

// ServiceAccount fails: there are no service accounts without a cluster.
func (l *Local) ServiceAccount(_ context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	return nil, ref{account, namespace, name}.notFound(": service accounts need a cluster")
}

// Services returns an empty list: there are no Services without a cluster.
func (l *Local) Services(context.Context, string) ([]*v1.Service, error) { return nil, nil }

// Token fails: only an API server can issue tokens.
func (l *Local) Token(_ context.Context, p *v1.Pod, _ string, _ int64) (value string, expires, refreshAt time.Time, err error) {
	return "", time.Time{}, time.Time{}, fmt.Errorf(
		"a token of service account %s/%s needs a cluster: join one with --kubeconfig, or do without the token", p.Namespace, ServiceAccountOf(p))
}

// CSIDriver returns the same settings for all drivers, since there is no cluster that has
// others: volumes are not attached, and a driver gets the information about the pod.
func (l *Local) CSIDriver(_ context.Context, name string) (*storagev1.CSIDriver, error) {
	return &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.CSIDriverSpec{
			AttachRequired: new(false), PodInfoOnMount: new(true),
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral},
		},
	}, nil
}

// VolumeAttachment fails: volumes are not attached without a cluster.
func (l *Local) VolumeAttachment(_ context.Context, name string) (*storagev1.VolumeAttachment, error) {
	return nil, ref{kind: attachment, name: name}.notFound(": volumes are attached by a cluster")
}

// TrustBundles fails: only a cluster has clustertrustbundles.
func (l *Local) TrustBundles(context.Context, *v1.ClusterTrustBundleProjection) ([]string, error) {
	return nil, errors.New("a clusterTrustBundle needs a cluster: take the bundle from a configMap")
}
