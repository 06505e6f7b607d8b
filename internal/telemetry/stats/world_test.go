package stats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/pods/cgroup"
	"berth/internal/runtime/cri"
)

// world is a machine with pods. A test changes it before it asks.
type world struct {
	mu       sync.Mutex
	pods     []*v1.Pod
	known    []pod.Observed
	cpu      map[string]uint64 // by cgroup
	children map[string][]string
	reads    int
	podStats []cri.PodStats
	asked    int
	broken   bool // the runtime does not answer
	dir      string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{cpu: map[string]uint64{}, children: map[string][]string{}, dir: t.TempDir()}
}

func (w *world) reader(t *testing.T) *Reader {
	t.Helper()
	r, err := New(t.Context(), Config{
		NodeName: "box", AllPods: func() string { return "/berth" }, RootDir: w.dir, Proc: "testdata/proc", Log: slog.New(slog.DiscardHandler),
		Pods: func() []*v1.Pod { return w.pods }, Known: func() []pod.Observed { return w.known },
		Cgroup: func(p *v1.Pod) string { return "/berth/pod" + string(p.UID) },
		Volume: func(uid pod.UID, name string) (string, bool) {
			return filepath.Join(w.dir, string(uid), name), true
		},
		Counters: w, Runtime: w,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r
}

// run adds a pod with one container that runs.
func (w *world) run(t *testing.T, name string, volumes ...v1.Volume) {
	t.Helper()
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = name, "shop", pod.UID("uid-"+name)
	p.Spec.Volumes = volumes
	w.pods = append(w.pods, p)
	logs := filepath.Join(w.dir, "logs", name, "app")
	for _, dir := range append([]string{logs}, w.volumeDirs(p)...) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, 5000), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.known = append(w.known, pod.Observed{
		UID: p.UID, Name: name, Namespace: "shop",
		Sandboxes: []pod.Sandbox{{ID: "sandbox-" + name, State: pod.SandboxReady, CreatedAt: time.Unix(100, 0)}},
		Containers: []pod.Container{
			{ID: "id-" + name, Name: "app", State: pod.ContainerRunning, Image: "localhost/app:1", StartedAt: time.Unix(200, 0), LogPath: filepath.Join(logs, "0.log")},
			{ID: "old-" + name, Name: "app", State: pod.ContainerExited},
		},
	})
	group := "/berth/poduid-" + name
	w.children[group] = []string{"sandbox-" + name, "cri-containerd-id-" + name + ".scope"}
	w.cpu[group], w.cpu[group+"/cri-containerd-id-"+name+".scope"] = 3e9, 2e9
}

func (w *world) volumeDirs(p *v1.Pod) []string {
	var out []string
	for _, v := range p.Spec.Volumes {
		out = append(out, filepath.Join(w.dir, string(p.UID), v.Name))
	}
	return out
}

func (w *world) Usage(path string) cgroup.Usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	u := cgroup.Usage{At: time.Now()}
	if total, ok := w.cpu[path]; ok {
		u.CPU, u.Processes = &total, new(uint64(4))
		u.Memory = &cgroup.Memory{Usage: 1000, WorkingSet: 900, RSS: 800, Limit: new(uint64(5000)), Swap: new(uint64(30)), SwapLimit: new(uint64(100))}
	}
	return u
}

func (w *world) Detail(string) cgroup.Detail { return cgroup.Detail{OOMKills: new(uint64(1))} }

func (w *world) Disks(string) []cgroup.Disk {
	return []cgroup.Disk{{Device: "none:0", Reads: 3}}
}

func (w *world) Children(path string) ([]string, error) { return w.children[path], nil }

func (w *world) Process(path string) int {
	if filepath.Base(path) == "sandbox-web" {
		return 4711
	}
	return 0
}

func (w *world) Processes(path string, _ int) []int {
	if filepath.Base(path) == "cri-containerd-id-web.scope" {
		return []int{os.Getpid()}
	}
	return nil
}

func (w *world) Stats(context.Context) ([]cri.PodStats, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if w.broken {
		return nil, errors.New("no answer")
	}
	return w.podStats, nil
}

func (w *world) Filesystems(context.Context) (cri.Filesystems, error) {
	return cri.Filesystems{Images: []cri.Filesystem{{Mountpoint: w.dir, Used: new(uint64(777)), Inodes: new(uint64(7))}}}, nil
}

func (w *world) burn(path string, nanoseconds uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cpu[path] += nanoseconds
}

func emptyDir(name string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
}

func claim(name, of string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: of}}}
}

func has(what string, got *uint64, want uint64) error {
	if got == nil {
		return fmt.Errorf("%s was not measured, want %d", what, want)
	}
	if *got != want {
		return fmt.Errorf("%s is %d, want %d", what, *got, want)
	}
	return nil
}
