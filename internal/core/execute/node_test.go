package execute

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/core/status"
	"berth/internal/lib/pod"
	"berth/internal/runtime/fake"
	"berth/internal/runtime/image"
	"berth/internal/runtime/render"
)

// fakeImages has every image but those that are marked as missing.
type fakeImages struct {
	mu       sync.Mutex
	missing  map[string]image.State
	released []pod.UID
}

func (s *fakeImages) Ensure(_ context.Context, _ *v1.Pod, c *v1.Container) image.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, ok := s.missing[c.Image]; ok {
		return state
	}
	return image.State{Ref: "ref:" + c.Image}
}

func (s *fakeImages) Release(uid pod.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = append(s.released, uid)
}

func (s *fakeImages) set(image string, state *image.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == nil {
		delete(s.missing, image)
		return
	}
	s.missing[image] = *state
}

// node is an executor on a fake runtime, in a bubble of time.
type node struct {
	*Executor
	t        *testing.T
	runtime  *fake.Runtime
	hooks    *fake.Hooks
	probes   *fake.Probes
	objects  *fake.Objects
	volumes  *fake.Volumes
	users    *fake.UserNamespaces
	events   *fake.Events
	upstream *fake.Upstream
	images   *fakeImages
	dir      string
	cgroups  []string        // that were removed
	made     []render.Cgroup // or their limits renewed
	// askedForSwap has the number of cgroups that were made before each question for limits of swap.
	askedForSwap []int
	noCgroup     error
	imageUser    render.User
	mounted      string // what is mounted within the directories of pods, if anything
	forgotten    []pod.UID
}

func onNode(t *testing.T, slots int, test func(n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &node{t: t, runtime: fake.New(), hooks: &fake.Hooks{}, probes: &fake.Probes{}, objects: &fake.Objects{}, volumes: &fake.Volumes{}, users: &fake.UserNamespaces{}, events: &fake.Events{}, upstream: &fake.Upstream{}, images: &fakeImages{missing: map[string]image.State{}}, dir: t.TempDir()}
		var err error
		n.Executor, err = New(n.config(slots))
		if err != nil {
			t.Fatal(err)
		}
		test(n)
	})
}

func (n *node) config(slots int) Config {
	return Config{
		Runtime: n.runtime, Images: n.images, Hooks: n.hooks, Probes: n.probes, Objects: n.objects, Volumes: n.volumes, Slots: NewSlots(slots), Log: slog.New(slog.DiscardHandler),
		Node: render.Node{Name: "node", LogsDir: filepath.Join(n.dir, "logs"), CgroupRoot: "/test"}, Backoff: plan.DefaultBackoff,
		RuntimeInfo: RuntimeInfo{
			CanMapUsers: func(handler string) bool { return handler != "old" },
			ImageUser:   func(context.Context, string) (render.User, error) { return n.imageUser, nil },
			Explain:     func(err error) string { return "why: " + err.Error() },
		},
		Host: Host{
			PodsDir: filepath.Join(n.dir, "pods"), LogLinksDir: filepath.Join(n.dir, "links"), UserNamespaces: n.users,
			LimitsSwap:   func() bool { n.askedForSwap = append(n.askedForSwap, len(n.made)); return true },
			MakeCgroup:   func(_ context.Context, c render.Cgroup) error { n.made = append(n.made, c); return n.noCgroup },
			RemoveCgroup: func(_ context.Context, path string) error { n.cgroups = append(n.cgroups, path); return nil },
			RemoveDir: func(dir string) error {
				if n.mounted != "" {
					return errors.New(n.mounted + " is still a mount point")
				}
				return os.RemoveAll(dir)
			},
			LogTail:     func(string, int64, int) string { return "the log" },
			Allocatable: func() v1.ResourceList { return nil },
		},
		Reports: Reports{
			Statuses: status.NewStore(), Events: n.events, Upstream: n.upstream,
			PodGone: func(uid pod.UID) { n.forgotten = append(n.forgotten, uid) },
		},
	}
}

// web is a pod whose containers have the images of their names.
func web(uid pod.UID, containers ...string) *v1.Pod {
	p := &v1.Pod{}
	p.UID, p.Name, p.Namespace = uid, "web-"+string(uid), "default"
	p.Spec.RestartPolicy = v1.RestartPolicyAlways
	for _, name := range containers {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name, Image: name})
	}
	return p
}

func (n *node) have(p *v1.Pod) pod.Observed {
	n.t.Helper()
	o, err := n.runtime.Pod(n.t.Context(), p.UID)
	if err != nil {
		n.t.Fatal(err)
	}
	return o
}

// sync makes one sync of a pod on its present observation.
func (n *node) sync(p *v1.Pod) (pod.Outcome, error) {
	n.t.Helper()
	return n.Sync(n.t.Context(), p, n.have(p))
}

// settle syncs a pod until there is nothing more to do.
func (n *node) settle(p *v1.Pod) pod.Outcome {
	n.t.Helper()
	for range 10 {
		outcome, err := n.sync(p)
		if err != nil {
			n.t.Fatal(err)
		}
		if !outcome.Again {
			return outcome
		}
		time.Sleep(time.Millisecond)
	}
	n.t.Fatal("it never settles")
	return pod.Outcome{}
}

func (n *node) exit(p *v1.Pod, container string, code int32) {
	n.t.Helper()
	if err := n.runtime.Exit(p.UID, container, code); err != nil {
		n.t.Fatal(err)
	}
}

// state is how a container of a pod reads in its status.
func (n *node) state(p *v1.Pod, container string) string {
	n.t.Helper()
	s, _ := n.Reports.Statuses.Get(p.UID)
	for _, c := range s.ContainerStatuses {
		switch {
		case c.Name != container:
		case c.State.Running != nil:
			return "running"
		case c.State.Terminated != nil:
			return "terminated"
		case c.State.Waiting != nil:
			return c.State.Waiting.Reason + ": " + c.State.Waiting.Message
		}
	}
	return "nothing"
}

func (n *node) expectState(p *v1.Pod, container, want string) {
	n.t.Helper()
	if got := n.state(p, container); got != want {
		n.t.Fatalf("%s is %q, want %q", container, got, want)
	}
}
