package fake

import (
	"context"
	"io/fs"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth/internal/lib/pod"
	"berth/internal/runtime/render"
)

// Objects implements execute.Objects with the ConfigMaps of PutConfigMap and no other objects.
type Objects struct {
	mu         sync.Mutex
	configMaps map[string]*v1.ConfigMap
	registered map[pod.UID]bool
}

// PutConfigMap makes a ConfigMap exist, in every namespace.
func (o *Objects) PutConfigMap(name string, data map[string]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.configMaps == nil {
		o.configMaps = map[string]*v1.ConfigMap{}
	}
	o.configMaps[name] = &v1.ConfigMap{Data: data}
}

// Registered reports whether a pod is registered.
func (o *Objects) Registered(uid pod.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.registered[uid]
}

// Register implements execute.Objects.
func (o *Objects) Register(p *v1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.registered == nil {
		o.registered = map[pod.UID]bool{}
	}
	o.registered[p.UID] = true
}

// Unregister implements execute.Objects.
func (o *Objects) Unregister(uid pod.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.registered, uid)
}

// ConfigMap implements execute.Objects.
func (o *Objects) ConfigMap(_ context.Context, _ *v1.Pod, name string) (*v1.ConfigMap, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m := o.configMaps[name]; m != nil {
		return m, nil
	}
	return nil, notFound("configmaps", name)
}

// Secret implements execute.Objects: no Secret exists.
func (o *Objects) Secret(_ context.Context, _ *v1.Pod, name string) (*v1.Secret, error) {
	return nil, notFound("secrets", name)
}

// Services implements execute.Objects: no Service exists.
func (o *Objects) Services(context.Context, *v1.Pod) ([]*v1.Service, error) { return nil, nil }

// RuntimeClass implements execute.Objects: no RuntimeClass exists.
func (o *Objects) RuntimeClass(_ context.Context, _ *v1.Pod, name string) (*nodev1.RuntimeClass, error) {
	return nil, notFound("runtimeclasses", name)
}

func notFound(resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)
}

// Volumes implements execute.Volumes. It sets nothing up, and records the calls of Teardown.
type Volumes struct {
	mu       sync.Mutex
	fail     error
	groups   []int64
	tornDown []pod.UID
}

// Fail makes calls of Setup return err, which may be nil again.
func (v *Volumes) Fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fail = err
}

// AddGroup adds a supplemental group that volumes need.
func (v *Volumes) AddGroup(group int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.groups = append(v.groups, group)
}

// Groups implements execute.Volumes.
func (v *Volumes) Groups(pod.UID) []int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]int64(nil), v.groups...)
}

// TornDown returns the pods that Teardown was called for.
func (v *Volumes) TornDown() []pod.UID {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]pod.UID(nil), v.tornDown...)
}

// Setup implements execute.Volumes.
func (v *Volumes) Setup(context.Context, *v1.Pod, []string) (time.Time, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return time.Time{}, v.fail
}

// Edited implements execute.Volumes: no volume was edited.
func (v *Volumes) Edited(*v1.Pod) bool { return false }

// Mounts implements execute.Volumes.
func (v *Volumes) Mounts(context.Context, *v1.Pod, *v1.Container, map[string]string) ([]render.Mount, error) {
	return nil, nil
}

// Devices implements execute.Volumes: containers have no block devices.
func (v *Volumes) Devices(context.Context, *v1.Pod, *v1.Container) ([]render.Device, error) {
	return nil, nil
}

// File implements execute.Volumes: volumes have no files.
func (v *Volumes) File(_ context.Context, _ *v1.Pod, _, path string) (string, error) {
	return "", &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

// Teardown implements execute.Volumes.
func (v *Volumes) Teardown(_ context.Context, uid pod.UID) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tornDown = append(v.tornDown, uid)
	return nil
}
