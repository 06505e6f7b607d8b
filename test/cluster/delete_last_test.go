//go:build real

package cluster

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"berth/test/cluster/lab"
)

// traces is what there is of a pod on its node.
func traces(t *testing.T, l *lab.Lab, node *lab.Node, p *corev1.Pod) (processIDs []int, mounts, cgroups []string) {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, string(p.UID)) {
			mounts = append(mounts, strings.TrimSpace(line))
		}
	}
	ours := filepath.Base(l.Dir()) + "." + node.Name
	roots, err := filepath.Glob("/sys/fs/cgroup/*/" + ours)
	must(t, err)
	for _, root := range append(roots, "/sys/fs/cgroup/"+ours) {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error { // others come and go
			if err == nil && entry.IsDir() && strings.Contains(entry.Name(), string(p.UID)) {
				cgroups = append(cgroups, path)
			}
			return nil
		})
	}
	return processes(t, p.Name), mounts, cgroups
}

func TestAnObjectIsDeletedOnlyOnceNothingIsLeftOfItsPod(t *testing.T) {
	t.Parallel()
	l, admin := sharedNamespace(t, "last")
	one := l.Nodes()[0]
	pods := podsIn(t, admin, "last")

	// Given a pod with a volume that somebody has a file of open.
	p := onNode(workloadPod("lingers-last", "diary", "lingers-last", "1s"), "one")
	p.Spec.Volumes = []corev1.Volume{{Name: "memory", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(1<<20, resource.BinarySI)},
	}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "memory", MountPath: "/memory"}}
	pods.create(p)
	p = pods.await("lingers-last", "ready", isReady)
	running, mounts, cgroups := traces(t, l, one, p)
	if len(running) == 0 || len(mounts) == 0 || len(cgroups) == 0 {
		t.Fatalf("while it runs it has the processes %v, the mounts %v and the cgroups %v", running, mounts, cgroups)
	}
	volumes, err := filepath.Glob(filepath.Join(one.Root, "pods", string(p.UID), "volumes", "*", "memory"))
	must(t, err)
	if len(volumes) != 1 {
		t.Fatalf("its volumes are not where they were: %v", volumes)
	}
	open, err := os.Create(filepath.Join(volumes[0], "open"))
	must(t, err)
	defer open.Close()
	changes, err := pods.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=lingers-last", ResourceVersion: p.ResourceVersion})
	must(t, err)
	defer changes.Stop()
	must(t, pods.Delete(t.Context(), "lingers-last", metav1.DeleteOptions{}))

	// Then its object is there for as long as the volume is, though nothing runs.
	awaitNoProcess(t, soon, "lingers-last")
	stays := time.After(3 * time.Second)
	for waiting := true; waiting; {
		select {
		case change := <-changes.ResultChan():
			if change.Type == watch.Deleted {
				t.Fatal("it was deleted, and its volume is still mounted")
			}
		case <-stays:
			waiting = false
		}
	}

	// And when it goes, nothing is left.
	must(t, open.Close())
	late := time.After(patience)
	for {
		select {
		case change := <-changes.ResultChan():
			if change.Type != watch.Deleted {
				continue
			}
			if running, mounts, cgroups := traces(t, l, one, p); len(running)+len(mounts)+len(cgroups) > 0 {
				t.Errorf("its object is gone, and it has the processes %v, the mounts %v and the cgroups %v", running, mounts, cgroups)
			}
			return
		case <-late:
			t.Fatal("it is never deleted")
		}
	}
}
