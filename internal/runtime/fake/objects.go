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

// Objects hold what they are given.
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

// Registered tells whether a pod is registered.
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

// Secret implements execute.Objects: there is none.
func (o *Objects) Secret(_ context.Context, _ *v1.Pod, name string) (*v1.Secret, error) {
	return nil, notFound("secrets", name)
}

// Services implements execute.Objects: there is none.
func (o *Objects) Services(context.Context, *v1.Pod) ([]*v1.Service, error) { return nil, nil }

// RuntimeClass implements execute.Objects: there is none.
func (o *Objects) RuntimeClass(_ context.Context, _ *v1.Pod, name string) (*nodev1.RuntimeClass, error) {
	return nil, notFound("runtimeclasses", name)
}

func notFound(resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)
}

// Volumes set nothing up, and note what they were asked for.
type Volumes struct {
	mu     sync.Mutex
	fail   error
	groups []int64
	torn   []pod.UID
}

// Fail makes the next calls of Setup fail, until it is told nil.
func (v *Volumes) Fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fail = err
}

// Allow makes a group one that containers have to be in.
func (v *Volumes) Allow(group int64) {
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

// Torn returns the pods whose volumes were taken down.
func (v *Volumes) Torn() []pod.UID {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]pod.UID(nil), v.torn...)
}

// Setup implements execute.Volumes.
func (v *Volumes) Setup(context.Context, *v1.Pod, []string) (time.Time, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return time.Time{}, v.fail
}

// Edited implements execute.Volumes: none was.
func (v *Volumes) Edited(*v1.Pod) bool { return false }

// Mounts implements execute.Volumes.
func (v *Volumes) Mounts(context.Context, *v1.Pod, *v1.Container, map[string]string) ([]render.Mount, error) {
	return nil, nil
}

// Devices implements execute.Volumes: there is none.
func (v *Volumes) Devices(context.Context, *v1.Pod, *v1.Container) ([]render.Device, error) {
	return nil, nil
}

// File implements execute.Volumes: there is none.
func (v *Volumes) File(_ context.Context, _ *v1.Pod, _, path string) (string, error) {
	return "", &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

// Teardown implements execute.Volumes.
func (v *Volumes) Teardown(_ context.Context, uid pod.UID) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.torn = append(v.torn, uid)
	return nil
}
