package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
)

func localDisk(path string) v1.PersistentVolumeSource {
	return v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}}
}

func TestPodsThatShareALocalVolumeWithOtherGroupsAreWarned(t *testing.T) {
	w := newWorld(t)
	disk := t.TempDir()
	w.bind(localDisk(disk))
	w.setup(withGroup(podWith(claimVolume("data")), someGroup()))

	// when a pod with the same group comes, then all is fine
	same := withGroup(podWith(claimVolume("data")), someGroup())
	same.UID = "u-2"
	w.setup(same)
	if len(w.warned) > 0 {
		t.Error(w.warned)
	}

	// when one with another comes, then it gets it as it is
	other := withGroup(podWith(claimVolume("data")), someGroup()+1)
	other.UID = "u-3"
	w.setup(other)
	w.setup(other)
	want := []string{fmt.Sprintf("u-3: AlreadyMountedVolume: The requested fsGroup is %d, but the volume disk has GID %d. The volume may not be shareable.", someGroup()+1, someGroup())}
	if !slices.Equal(w.warned, want) {
		t.Errorf("%q, want %q", w.warned, want)
	}
}

func TestOnePodAtATimeSetsUpALocalVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		disk := t.TempDir()
		w.bind(localDisk(disk))
		release, err := w.m.localLocks.Lock(t.Context(), disk) // as a pod does that walks through it
		if err != nil {
			t.Fatal(err)
		}
		p := podWith(claimVolume("data"))

		// given a pod that has begun, then another one waits, and not without end
		w.setupFails(p, "wait for another pod that sets it up: not done since")
		synctest.Wait()
		if len(w.mounter.done) > 0 || len(w.m.guard.busy) > 0 {
			t.Error(w.mounter.done, w.m.guard.busy)
		}

		// when that is done, then it goes on
		done := make(chan error)
		go func() {
			_, err := w.m.Setup(context.Background(), p, nil)
			done <- err
		}()
		synctest.Wait()
		if len(w.mounter.done) > 0 {
			t.Error("it did not wait")
		}
		release()
		if err := <-done; err != nil || len(w.mounter.done) != 1 {
			t.Error(err, w.mounter.done)
		}
		if w.m.localLocks.InUse() > 0 {
			t.Error("somebody still has the turn")
		}
	})
}

func TestMountOptionsOfALocalVolume(t *testing.T) {
	w := newWorld(t)
	disk := t.TempDir()
	_, pv := w.bind(localDisk(disk))
	pv.Spec.MountOptions = []string{"noexec", "discard", "rw", "noexec", "data=ordered"}
	p := podWith(claimVolume("data"))

	w.setup(p)

	if want := []string{"bind " + disk + " noexec,rw"}; !slices.Equal(w.mounter.done, want) {
		t.Errorf("%q, want %q", w.mounter.done, want)
	}
	// options that a bind mount can't have cause a warning
	if len(w.warned) != 1 || !strings.HasPrefix(w.warned[0], "u-1: UnsupportedMountOption: The mount options discard,data=ordered of volume disk") {
		t.Errorf("%q", w.warned)
	}
}

func TestAReadOnlyLocalVolumeKeepsItsGroup(t *testing.T) {
	w := newWorld(t)
	disk := t.TempDir()
	file := filepath.Join(disk, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, pv := w.bind(localDisk(disk))
	pv.Spec.MountOptions = []string{"ro"}
	p := withGroup(podWith(claimVolume("data")), someGroup())

	w.setup(p)

	mounts, err := w.m.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
	if err != nil || !mounts[0].ReadOnly || mode(t, file) != 0o600 {
		t.Error(mounts, err, mode(t, file))
	}
}

func TestMountOptionsThatExcludeOneAnother(t *testing.T) {
	for options, want := range map[string]uint64{"noatime,relatime": 0, "relatime,noatime": 0x10, "strictatime,ro,nodev": 0x25} {
		if got := bindAttr(strings.Split(options, ",")); got.Attr_set != want || got.Attr_clr != 0x70 {
			t.Errorf("%s: %+v", options, got)
		}
	}
}

func TestMountOptionsOfAnExport(t *testing.T) {
	w := newWorld(t)
	_, pv := w.bind(v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "files", Path: "/x"}})
	pv.Annotations = map[string]string{v1.MountOptionAnnotation: "vers=4.2,,hard"}
	w.setup(podWith(claimVolume("data")))
	if want := []string{"nfs files:/x vers=4.2,hard"}; !slices.Equal(w.mounter.done, want) {
		t.Errorf("%q, want %q", w.mounter.done, want)
	}
}

// A label can't be written to what is read-only, and is not for one pod to change there.
func TestWhatIsReadOnlyKeepsItsLabel(t *testing.T) {
	for name, test := range map[string]struct {
		claimed bool
		options []string
		want    bool
	}{
		"written to":         {want: true},
		"claimed read-only":  {claimed: true},
		"mounted read-only":  {options: []string{"ro"}},
		"with other options": {options: []string{"noatime"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, pv := w.bind(localDisk(t.TempDir()))
			pv.Spec.MountOptions = test.options
			p := podWith(claimVolume("data"))
			p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = test.claimed
			w.setup(p)
			mounts, err := w.m.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
			if err != nil || mounts[0].SELinuxRelabel != test.want {
				t.Errorf("relabelled: %t, %v", mounts[0].SELinuxRelabel, err)
			}
		})
	}
}
