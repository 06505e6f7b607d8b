//go:build real

package core

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"berth/test/cluster/kit"
	"berth/test/lab"
)

// traces lists the processes, mounts and cgroups of a pod on its node.
func traces(t *testing.T, l *lab.Lab, node *lab.Node, p *corev1.Pod) (processIDs []int, mounts, cgroups []string) {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	kit.Must(t, err)
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, string(p.UID)) {
			mounts = append(mounts, strings.TrimSpace(line))
		}
	}
	ours := filepath.Base(l.Dir()) + "." + node.Name
	roots, err := filepath.Glob("/sys/fs/cgroup/*/" + ours)
	kit.Must(t, err)
	for _, root := range append(roots, "/sys/fs/cgroup/"+ours) {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error { // others come and go
			if err == nil && entry.IsDir() && strings.Contains(entry.Name(), string(p.UID)) {
				cgroups = append(cgroups, path)
			}
			return nil
		})
	}
	return kit.ProcessesWith(t, p.Name), mounts, cgroups
}

// An object is there for as long as anything is left of its pod, though nothing of it runs.
func TestAnObjectIsDeletedOnlyOnceNothingIsLeftOfItsPod(t *testing.T) {
	t.Parallel()
	l, admin := kit.SharedNamespace(t, "last")
	one := l.Nodes()[0]
	pods := kit.PodsIn(t, admin, "last")

	for what, hold := range map[string]func(t *testing.T, p *corev1.Pod, cgroups []string) (held string, letGo func()){
		"volume": func(t *testing.T, p *corev1.Pod, _ []string) (string, func()) {
			volumes, err := filepath.Glob(filepath.Join(one.Root, "pods", string(p.UID), "volumes", "*", "memory"))
			kit.Must(t, err)
			if len(volumes) != 1 {
				t.Fatalf("its volumes are not where they were: %v", volumes)
			}
			open, err := os.Create(filepath.Join(volumes[0], "open"))
			kit.Must(t, err)
			t.Cleanup(func() { open.Close() })
			return open.Name(), func() { kit.Must(t, open.Close()) }
		},
		"cgroup": func(t *testing.T, _ *corev1.Pod, cgroups []string) (string, func()) {
			pid, letDie := undying(t)
			// One of its own: with cgroup v2, no process can be in one that has others below it.
			below := filepath.Join(cgroups[0], "undying")
			kit.Must(t, os.Mkdir(below, 0o755))
			kit.Must(t, os.WriteFile(filepath.Join(below, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644))
			return below, letDie
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			pods := pods.WithT(t)
			name := "lingers-" + what

			// Given a pod of which something can't be taken away.
			p := kit.OnNode(kit.WorkloadPod(name, "activity", name, "1s"), "one")
			p.Spec.Volumes = []corev1.Volume{{Name: "memory", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(1<<20, resource.BinarySI)},
			}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "memory", MountPath: "/memory"}}
			pods.MustCreate(p)
			p = pods.Await(name, "ready", kit.IsReady)
			var cgroups []string
			kit.Within(t, kit.ShortTimeout, func() error { // its process is the runtime's own for a moment
				running, mounts, found := traces(t, l, one, p)
				if len(running) == 0 || len(mounts) == 0 || len(found) == 0 {
					return fmt.Errorf("while it runs it has the processes %v, the mounts %v and the cgroups %v", running, mounts, found)
				}
				cgroups = found
				return nil
			})
			held, letGo := hold(t, p, cgroups)

			// When it is deleted.
			changes, err := pods.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: p.ResourceVersion})
			kit.Must(t, err)
			defer changes.Stop()
			kit.Must(t, pods.Delete(t.Context(), name, metav1.DeleteOptions{}))

			// Then its object stays for as long as that does, though nothing runs.
			kit.AwaitNoProcess(t, kit.ShortTimeout, name)
			if isDeleted(changes, 4*time.Second) {
				t.Fatalf("its object is gone, and its %s is not", what)
			}
			_, err = os.Stat(held)
			kit.Must(t, err)

			// And once it goes, nothing is left.
			letGo()
			if !isDeleted(changes, kit.WaitTimeout) {
				t.Fatal("it is never deleted")
			}
			if running, mounts, cgroups := traces(t, l, one, p); len(running)+len(mounts)+len(cgroups) > 0 {
				t.Errorf("its object is gone, and it has the processes %v, the mounts %v and the cgroups %v", running, mounts, cgroups)
			}
		})
	}
}

// isDeleted reports whether an object is deleted within a while.
func isDeleted(changes watch.Interface, limit time.Duration) bool {
	for late := time.After(limit); ; {
		select {
		case change := <-changes.ResultChan():
			if change.Type == watch.Deleted {
				return true
			}
		case <-late:
			return false
		}
	}
}

// undying is a process that waits in the kernel, as for a disk that is gone: no signal
// ends it before letDie is called.
func undying(t *testing.T) (pid int, letDie func()) {
	t.Helper()
	dir, device, wake := kit.HungMount(t)
	kit.Must(t, unix.SetNonblock(device, true))
	request := make([]byte, 64<<10)
	word := func(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

	// The kernel asks in which version we speak: it is 7.1, which knows the least.
	_, err := unix.Read(device, request)
	kit.Must(t, err)
	unique := request[8:16]
	_, err = unix.Write(device, slices.Concat(word(24), word(0), unique, word(7), word(1)))
	kit.Must(t, err)

	// A process can be killed before its question was read, and not after.
	process := exec.Command("cat", filepath.Join(dir, "x"))
	kit.Must(t, process.Start())
	t.Cleanup(func() {
		wake()
		_ = process.Wait()
	})
	pid = process.Process.Pid
	kit.Within(t, kit.ShortTimeout, func() error {
		_, err := unix.Read(device, request)
		if asker := request[32:36]; err == nil && !bytes.Equal(asker, word(uint32(pid))) {
			err = errors.New("somebody else looks at it")
		}
		return err
	})
	return pid, wake
}
