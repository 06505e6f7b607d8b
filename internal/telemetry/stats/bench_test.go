package stats

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/host/mounts"
	"berth/internal/lib/pod"
	"berth/internal/pods/cgroup"
)

// BenchmarkRead reads the files of a node with many pods. What the kernel does to
// make the content of each comes on top.
func BenchmarkRead(b *testing.B) {
	for _, pods := range []int{60, 500} {
		for name, scope := range map[string]Scope{"brief": Brief, "full": Full} {
			b.Run(fmt.Sprintf("%s/%d", name, pods), func(b *testing.B) { benchmarkRead(b, pods, scope) })
		}
	}
}

func benchmarkRead(b *testing.B, pods int, scope Scope) {
	dir := b.TempDir()
	w := &world{dir: dir}
	for i := range pods {
		p := &v1.Pod{}
		p.Name, p.Namespace, p.UID = fmt.Sprint("web-", i), "shop", pod.UID(fmt.Sprint(i))
		w.pods = append(w.pods, p)
		w.known = append(w.known, pod.Observed{
			UID: p.UID, Sandboxes: []pod.Sandbox{{ID: fmt.Sprint("sandbox-", i), State: pod.SandboxReady}},
			Containers: []pod.Container{{ID: fmt.Sprint("id-", i), Name: "app", State: pod.ContainerRunning}},
		})
		for _, group := range []string{"", fmt.Sprint("id-", i), fmt.Sprint("sandbox-", i)} {
			source := os.DirFS(filepath.Join("..", "cgroup", "testdata", "counters", "v2", "berth", "pod1"))
			at := filepath.Join(dir, "pod"+string(p.UID), group)
			if err := os.CopyFS(at, source); err != nil {
				b.Fatal(err)
			}
			_ = os.RemoveAll(filepath.Join(at, "aaaa"))
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte("memory"), 0o644); err != nil {
		b.Fatal(err)
	}
	table, err := mounts.Parse(strings.NewReader("1 1 0:1 / " + dir + " rw - cgroup2 cgroup2 rw\n"))
	if err != nil {
		b.Fatal(err)
	}
	counters, err := cgroup.NewCounters(table)
	if err != nil {
		b.Fatal(err)
	}
	r, err := New(b.Context(), Config{
		NodeName: "box", RootDir: dir, Proc: "testdata/proc", Log: slog.New(slog.DiscardHandler), Counters: counters, Runtime: w,
		Pods: func() []*v1.Pod { return w.pods }, Known: func() []pod.Observed { return w.known },
		Cgroup: func(p *v1.Pod) string { return "/pod" + string(p.UID) },
		Volume: func(pod.UID, string) (string, bool) { return "", false },
	})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Stop()
	b.ReportAllocs()
	for b.Loop() {
		r.snapshot = nil
		s, err := r.Read(b.Context(), scope)
		if err != nil || len(s.Pods) != pods || s.Pods[0].Containers[0].CPU == nil {
			b.Fatal(err)
		}
	}
}
