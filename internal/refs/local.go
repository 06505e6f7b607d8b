package refs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth/internal/pod"
)

// LocalConfig is what Local is made of.
type LocalConfig struct {
	Log *slog.Logger
	// Changed is told the pods that refer to an object which is another one now.
	Changed func(context.Context, pod.UID)
}

// Local has the objects of the manifest folder. Nothing is fetched, so no getter waits.
type Local struct {
	LocalConfig

	mu      sync.Mutex
	objects map[ref]object
	pods    map[pod.UID]map[ref]bool // what they refer to
}

// NewLocal checks the configuration. There is no object before Set.
func NewLocal(c LocalConfig) (*Local, error) {
	if c.Log == nil || c.Changed == nil {
		return nil, errors.New("references to objects of the manifest folder: log and changed are required")
	}
	return &Local{LocalConfig: c, objects: map[ref]object{}, pods: map[pod.UID]map[ref]bool{}}, nil
}

// Set replaces all objects by those that the folder has now: ConfigMaps, Secrets,
// RuntimeClasses, PersistentVolumes and PersistentVolumeClaims. It calls Changed for the
// registered pods that find something else now. Of two objects of the same kind and
// name the later one counts; whoever reads the folder refuses such a thing before.
func (l *Local) Set(ctx context.Context, objects []runtime.Object) {
	next := make(map[ref]object, len(objects))
	for _, given := range objects {
		r, o := localObject(given)
		if o == nil {
			l.Log.Warn("pods can't refer to an object of this type in the manifest folder; it is left out", "type", fmt.Sprintf("%T", given))
			continue
		}
		next[r] = o
	}
	l.mu.Lock()
	was := l.objects
	l.objects = next
	pods := l.affected(was, next)
	l.mu.Unlock()
	for _, uid := range pods {
		l.Changed(ctx, uid)
	}
}

// localObject returns an object of the folder as an API server would have stored it.
func localObject(given runtime.Object) (ref, object) {
	of := func(kind string, m *metav1.ObjectMeta) ref {
		m.Namespace = cmp.Or(m.Namespace, metav1.NamespaceDefault)
		return ref{kind, m.Namespace, m.Name}
	}
	switch given := given.(type) {
	case *v1.ConfigMap:
		o := *given
		return of(configMap, &o.ObjectMeta), &o
	case *v1.Secret:
		o := *given
		if len(o.StringData) > 0 {
			o.Data = maps.Clone(o.Data)
			if o.Data == nil {
				o.Data = map[string][]byte{}
			}
			for key, value := range o.StringData {
				o.Data[key] = []byte(value)
			}
			o.StringData = nil
		}
		o.Type = cmp.Or(o.Type, v1.SecretTypeOpaque)
		return of(secret, &o.ObjectMeta), &o
	case *v1.PersistentVolumeClaim:
		o := *given
		return of(claim, &o.ObjectMeta), &o
	case *v1.PersistentVolume:
		return ref{kind: volume, name: given.Name}, given
	case *nodev1.RuntimeClass:
		return ref{kind: runtimeClass, name: given.Name}, given
	default:
		return ref{}, nil
	}
}

// affected returns the pods that refer to what is not the same in both. The lock is
// held.
func (l *Local) affected(was, is map[ref]object) []pod.UID {
	changed := map[ref]bool{}
	for _, objects := range []map[ref]object{was, is} {
		for r := range objects {
			if same(was[r], is[r]) {
				continue
			}
			changed[r] = true
			if r.kind == volume {
				claimsOfVolume(changed, r, was)
				claimsOfVolume(changed, r, is)
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

// claimsOfVolume adds the claims that have a volume, or could get it. Pods refer to a
// volume only through them.
func claimsOfVolume(out map[ref]bool, r ref, objects map[ref]object) {
	v, ok := objects[r].(*v1.PersistentVolume)
	if !ok {
		return
	}
	if to := v.Spec.ClaimRef; to != nil {
		out[ref{claim, cmp.Or(to.Namespace, metav1.NamespaceDefault), to.Name}] = true
		return
	}
	for of, o := range objects {
		if c, ok := o.(*v1.PersistentVolumeClaim); ok && (c.Spec.VolumeName == v.Name || c.Spec.VolumeName == "") {
			out[of] = true
		}
	}
}

// Register takes note of what a pod refers to.
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
	hint := ": put it into the manifest folder"
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
	return typed[*nodev1.RuntimeClass](l.read(ref{kind: runtimeClass, name: name}))
}

// PersistentVolumeClaim returns a claim of the folder.
func (l *Local) PersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return typed[*v1.PersistentVolumeClaim](l.read(ref{claim, namespace, name}))
}

// PersistentVolume returns a volume of the folder.
func (l *Local) PersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	return typed[*v1.PersistentVolume](l.read(ref{kind: volume, name: name}))
}

// ServiceAccount finds none: there are none without a cluster.
func (l *Local) ServiceAccount(_ context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	return nil, ref{account, namespace, name}.notFound(": service accounts need a cluster")
}

// Services returns none: there are none without a cluster.
func (l *Local) Services(context.Context, string) ([]*v1.Service, error) { return nil, nil }

// Token fails: only an API server can make one.
func (l *Local) Token(_ context.Context, p *v1.Pod, _ string, _ int64) (value string, expires, refreshAt time.Time, err error) {
	return "", time.Time{}, time.Time{}, fmt.Errorf(
		"a token of service account %s/%s needs a cluster: join one with --kubeconfig, or do without the token", p.Namespace, ServiceAccountOf(p))
}
