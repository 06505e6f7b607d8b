package objects

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"

	"berth/internal/lib/pod"
)

// provider has the getters that Local and API share.
type provider interface {
	Register(p *v1.Pod)
	Unregister(uid pod.UID)
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
	Token(ctx context.Context, p *v1.Pod, audience string, seconds int64) (token string, expires, refreshAt time.Time, err error)
	RuntimeClass(ctx context.Context, name string) (*nodev1.RuntimeClass, error)
	Services(ctx context.Context, namespace string) ([]*v1.Service, error)
	PersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error)
	PersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error)
	ServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error)
	CSIDriver(ctx context.Context, name string) (*storagev1.CSIDriver, error)
	VolumeAttachment(ctx context.Context, name string) (*storagev1.VolumeAttachment, error)
	TrustBundles(ctx context.Context, s *v1.ClusterTrustBundleProjection) ([]string, error)
}

// Provider chooses the provider by the kind of pod: a static pod gets the objects that lie
// beside its manifest, every other pod the objects of the API server. A static pod that
// could read from the API server would stop to work while the server is away, and API
// servers accept no mirror of such a pod.
type Provider struct {
	Local *Local
	API   *API // nil without a cluster
}

func (b Provider) of(p *v1.Pod) provider {
	if b.API == nil || pod.IsStatic(p) {
		return b.Local
	}
	return b.API
}

// Register begins to watch the objects that a pod refers to.
func (b Provider) Register(p *v1.Pod) { b.of(p).Register(p) }

// Unregister forgets a pod in both providers.
func (b Provider) Unregister(uid pod.UID) {
	b.Local.Unregister(uid)
	if b.API != nil {
		b.API.Unregister(uid)
	}
}

// ConfigMap returns a ConfigMap of the pod's namespace.
func (b Provider) ConfigMap(ctx context.Context, p *v1.Pod, name string) (*v1.ConfigMap, error) {
	return b.of(p).ConfigMap(ctx, p.Namespace, name)
}

// Secret returns a Secret of the pod's namespace.
func (b Provider) Secret(ctx context.Context, p *v1.Pod, name string) (*v1.Secret, error) {
	return b.of(p).Secret(ctx, p.Namespace, name)
}

// Token returns a token of a pod's service account, and when to ask for a new one.
func (b Provider) Token(ctx context.Context, p *v1.Pod, audience string, seconds int64) (token string, expires, refreshAt time.Time, err error) {
	return b.of(p).Token(ctx, p, audience, seconds)
}

// RuntimeClass returns the RuntimeClass of a pod.
func (b Provider) RuntimeClass(ctx context.Context, p *v1.Pod, name string) (*nodev1.RuntimeClass, error) {
	return b.of(p).RuntimeClass(ctx, name)
}

// Services returns the Services that get variables in the environment of a pod.
func (b Provider) Services(ctx context.Context, p *v1.Pod) ([]*v1.Service, error) {
	return b.of(p).Services(ctx, p.Namespace)
}

// PersistentVolumeClaim returns a claim of the pod's namespace.
func (b Provider) PersistentVolumeClaim(ctx context.Context, p *v1.Pod, name string) (*v1.PersistentVolumeClaim, error) {
	return b.of(p).PersistentVolumeClaim(ctx, p.Namespace, name)
}

// PersistentVolume returns the volume that a claim of a pod is bound to.
func (b Provider) PersistentVolume(ctx context.Context, p *v1.Pod, name string) (*v1.PersistentVolume, error) {
	return b.of(p).PersistentVolume(ctx, name)
}

// ServiceAccount returns a service account of the pod's namespace.
func (b Provider) ServiceAccount(ctx context.Context, p *v1.Pod, name string) (*v1.ServiceAccount, error) {
	return b.of(p).ServiceAccount(ctx, p.Namespace, name)
}

// SecretIn returns a Secret of any namespace, such as one that the volume of a pod's claim
// names.
func (b Provider) SecretIn(ctx context.Context, p *v1.Pod, namespace, name string) (*v1.Secret, error) {
	return b.of(p).Secret(ctx, namespace, name)
}

// CSIDriver returns the CSIDriver object of a driver of a pod's volumes.
func (b Provider) CSIDriver(ctx context.Context, p *v1.Pod, name string) (*storagev1.CSIDriver, error) {
	return b.of(p).CSIDriver(ctx, name)
}

// VolumeAttachment returns the VolumeAttachment of a volume of a pod.
func (b Provider) VolumeAttachment(ctx context.Context, p *v1.Pod, name string) (*storagev1.VolumeAttachment, error) {
	return b.of(p).VolumeAttachment(ctx, name)
}

// TrustBundles returns the certificates that a projected volume of a pod selects.
func (b Provider) TrustBundles(ctx context.Context, p *v1.Pod, s *v1.ClusterTrustBundleProjection) ([]string, error) {
	return b.of(p).TrustBundles(ctx, s)
}
