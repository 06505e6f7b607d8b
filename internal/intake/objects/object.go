package objects

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kinds of objects that pods refer to, as users read them in messages.
const (
	configMap    = "configmap"
	secret       = "secret"
	runtimeClass = "runtimeclass"
	claim        = "persistentvolumeclaim"
	volume       = "persistentvolume"
	account      = "serviceaccount"
	csiDriver    = "csidriver"
	attachment   = "volumeattachment"
	trustBundle  = "clustertrustbundle"
)

// object is an object of any kind.
type object interface {
	metav1.Object
	runtime.Object
}

// ref names an object. The namespace is empty where a kind has none.
type ref struct{ kind, namespace, name string }

func (r ref) String() string {
	if r.namespace == "" {
		return r.kind + " " + r.name
	}
	return r.kind + " " + r.namespace + "/" + r.name
}

// notFound is the error for an object that does not exist. The hint is appended to its
// message.
func (r ref) notFound(hint string) error {
	err := apierrors.NewNotFound(schema.GroupResource{Resource: r.kind}, r.name)
	err.ErrStatus.Message += hint
	return err
}

// failed wraps the error of reading an object.
func (r ref) failed(err error) error {
	if apierrors.IsNotFound(err) {
		return r.notFound("")
	}
	return fmt.Errorf("read %s: %w", r, err)
}

// lastApplied is where kubectl keeps a second copy of the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// leanMeta drops managedFields and kubectl's annotation from metadata: berth does not read
// them, and they are often larger than the rest.
func leanMeta(m *metav1.ObjectMeta) {
	m.ManagedFields = nil
	if _, there := m.Annotations[lastApplied]; there {
		m.Annotations = maps.Clone(m.Annotations)
		delete(m.Annotations, lastApplied)
	}
}

// lean returns a copy of a ConfigMap or Secret with lean metadata. The given object belongs
// to the client and is not changed.
func lean(given any) (object, error) {
	switch given := given.(type) {
	case *v1.ConfigMap:
		kept := *given
		leanMeta(&kept.ObjectMeta)
		return &kept, nil
	case *v1.Secret:
		kept := *given
		leanMeta(&kept.ObjectMeta)
		return &kept, nil
	default:
		return nil, fmt.Errorf("keep what pods refer to: this is no ConfigMap or Secret, but a %T", given)
	}
}

// immutable reports whether an object promises never to change.
func immutable(o object) bool {
	var promise *bool
	switch o := o.(type) {
	case *v1.ConfigMap:
		promise = o.Immutable
	case *v1.Secret:
		promise = o.Immutable
	}
	return promise != nil && *promise
}

// same reports whether two versions of an object are the same for a pod. nil is an object
// that does not exist.
func same(a, b object) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	switch a := a.(type) {
	case *v1.ConfigMap:
		b, ok := b.(*v1.ConfigMap)
		return ok && maps.Equal(a.Data, b.Data) && maps.EqualFunc(a.BinaryData, b.BinaryData, bytes.Equal)
	case *v1.Secret:
		b, ok := b.(*v1.Secret)
		return ok && a.Type == b.Type && maps.EqualFunc(a.Data, b.Data, bytes.Equal)
	case *nodev1.RuntimeClass:
		b, ok := b.(*nodev1.RuntimeClass)
		return ok && sameClass(a, b)
	case *v1.PersistentVolumeClaim:
		b, ok := b.(*v1.PersistentVolumeClaim)
		return ok && apiequality.Semantic.DeepEqual(a.Spec, b.Spec)
	case *v1.PersistentVolume:
		b, ok := b.(*v1.PersistentVolume)
		return ok && apiequality.Semantic.DeepEqual(a.Spec, b.Spec)
	default:
		return false
	}
}

// sameClass reports whether a pod runs in the same way with two versions of its RuntimeClass.
// The scheduling part of a class is of no concern to a node.
func sameClass(a, b *nodev1.RuntimeClass) bool {
	return a.Handler == b.Handler && apiequality.Semantic.DeepEqual(a.Overhead, b.Overhead)
}

func leanClass(given *nodev1.RuntimeClass) *nodev1.RuntimeClass {
	kept := *given
	leanMeta(&kept.ObjectMeta)
	return &kept
}

// leanService keeps the fields that variables are made of. There may be thousands of
// Services.
func leanService(given *v1.Service) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: given.Name, Namespace: given.Namespace, UID: given.UID, ResourceVersion: given.ResourceVersion,
		},
		Spec: v1.ServiceSpec{
			Type: given.Spec.Type, ClusterIP: given.Spec.ClusterIP, ClusterIPs: slices.Clone(given.Spec.ClusterIPs),
			Ports: slices.Clone(given.Spec.Ports),
		},
	}
}
