package volume

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/volumekind"
)

// edit is the same pod with another source of its volume.
func edit(p *v1.Pod, source v1.VolumeSource) *v1.Pod {
	p = p.DeepCopy()
	p.Spec.Volumes[0].VolumeSource = source
	return p
}

func (w *world) mustBeEdited(p *v1.Pod, want bool) {
	w.t.Helper()
	if got := w.m.Edited(p); got != want {
		w.t.Errorf("edited: %t, want %t", got, want)
	}
}

func TestAnEditedVolumeIsAnotherOne(t *testing.T) {
	t.Run("while the agent runs", func(t *testing.T) {
		mustFollowEdits(newWorld(t), func() {}, volumekind.EmptyDir.Dir(), volumekind.NFS.Dir())
	})
	t.Run("while it is away", func(t *testing.T) {
		w := newWorld(t)
		mustFollowEdits(w, w.restart, volumekind.NFS.Dir()) // a directory without a volume is removed with the pod
	})
}

// mustFollowEdits edits a pod again and again. Nothing is to be left in the directories
// empty.
func mustFollowEdits(w *world, meanwhile func(), empty ...string) {
	t := w.t
	first, second := t.TempDir(), t.TempDir()
	host := func(dir string) v1.VolumeSource {
		return v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}
	}
	image := v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "localhost/data:1"}}
	p := podWith(host(first))
	w.mustBeEdited(p, false)
	w.setup(p)
	w.mustBeEdited(p, false)
	meanwhile()

	// each edit shows something else, and leaves nothing of what was there before
	for _, c := range []struct {
		source v1.VolumeSource
		shows  string
		mounts int
	}{
		{host(second), second, 0},
		{emptyDir(v1.StorageMediumMemory, ""), "kubernetes.io~empty-dir/vol", 1},
		{emptyDir("", ""), "kubernetes.io~empty-dir/vol", 0},
		{nfsVolume("/a"), "kubernetes.io~nfs/vol", 1},
		{nfsVolume("/b"), "kubernetes.io~nfs/vol", 1},
		{image, "", 0},
		{csiVolume(), "kubernetes.io~csi/vol/mount", 0},
		{host(first), first, 0},
	} {
		p = edit(p, c.source)
		w.setup(p)
		w.mustBeEdited(p, false)
		w.mustBeEdited(edit(p, nfsVolume("/other")), true)
		if got := w.dir(p); !strings.HasSuffix(got, c.shows) || len(w.mounter.mounts) != c.mounts {
			t.Errorf("%s, want %s; mounted are %v", got, c.shows, w.mounter.mounts)
		}
		meanwhile()
	}
	want := []string{
		"tmpfs vol mode=1777,size=8589934592", "unmount vol", "nfs files:/a ", "unmount vol", "nfs files:/b ", "unmount vol",
	}
	if !slices.Equal(w.mounter.done, want) || !slices.Equal(w.csi.unmounts, []string{"u-1 vol"}) {
		t.Errorf("done: %q, by drivers: %q", w.mounter.done, w.csi.unmounts)
	}
	for _, kind := range empty {
		if left, err := os.ReadDir(filepath.Join(w.cfg.PodsDir, "u-1", "volumes", kind)); len(left) > 0 || err != nil {
			t.Error(kind, left, err)
		}
	}
}

func TestWhatAnEditMakesNoOtherVolumeOf(t *testing.T) {
	w := newWorld(t)
	w.objects.configMaps["a"] = &v1.ConfigMap{Data: map[string]string{"key": "a"}}
	w.objects.configMaps["b"] = &v1.ConfigMap{Data: map[string]string{"key": "b"}}
	config := func(name string) v1.VolumeSource {
		return v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}}
	}
	p := podWith(config("a"))
	w.setup(p)
	p = edit(p, config("b"))
	w.mustBeEdited(p, false)
	w.setup(p)
	w.must(w.dir(p), map[string]string{"key": "b"})

	// a directory keeps its data when it may grow
	q := podWith(emptyDir("", "1Mi"))
	q.UID = "u-2"
	w.setup(q)
	w.mustBeEdited(edit(q, emptyDir("", "2Mi")), false)
}

func TestAnEditTakesNoDataFromWhatStillRuns(t *testing.T) {
	w := newWorld(t)
	p := podWith(emptyDir("", ""))
	w.setup(p)
	file := filepath.Join(w.dir(p), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.setup(edit(p, nfsVolume("/x")))
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if err := w.m.Teardown(t.Context(), p.UID); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(w.cfg.PodsDir, "u-1")); len(left) > 0 || err != nil {
		t.Error(left, err)
	}
}

func TestPartsOfAnEditedVolumeAreTakenAway(t *testing.T) {
	w := newWorld(t)
	p := podWith(emptyDir("", ""))
	p.Spec.Containers[0].VolumeMounts[0].SubPath = "part"
	w.setup(p)
	w.dir(p)
	p = edit(p, v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: t.TempDir()}})
	w.setup(p)
	if len(w.mounter.mounts) > 0 {
		t.Error("still mounted:", w.mounter.mounts)
	}
}

// twice is a pod that names one claim in two volumes.
func twice(firstReads, secondReads bool) *v1.Pod {
	p := podWith(claimVolume("data"))
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "more", VolumeSource: claimVolume("data")})
	p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = firstReads
	p.Spec.Volumes[1].PersistentVolumeClaim.ReadOnly = secondReads
	p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "more", MountPath: "/more"})
	return p
}

func TestAnEditLeavesWhatAnotherVolumeHas(t *testing.T) {
	w := newWorld(t)
	w.bind(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: t.TempDir()}})
	p := twice(false, false)
	w.setup(p)
	w.setup(edit(p, v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/"}}))
	if len(w.mounter.mounts) != 1 {
		t.Error(w.mounter.mounts)
	}
}

func TestAClaimThatIsReadHereAndWrittenThere(t *testing.T) {
	for _, c := range []struct {
		reads  [2]bool
		mode   os.FileMode // of a file in it, once the pod's group has it
		remote string
	}{
		{[2]bool{true, false}, 0o660, "nfs files:/x "},
		{[2]bool{false, true}, 0o660, "nfs files:/x "},
		{[2]bool{true, true}, 0o600, "nfs files:/x ro"},
	} {
		w := newWorld(t)
		disk := t.TempDir()
		file := filepath.Join(disk, "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w.bind(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: disk}})
		p := withGroup(twice(c.reads[0], c.reads[1]), someGroup())
		w.setup(p)
		if got := mode(t, file); got != c.mode {
			t.Errorf("read-only %v: the file is %v", c.reads, got)
		}
		mounts, err := w.m.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
		if err != nil || mounts[0].ReadOnly != c.reads[0] || mounts[1].ReadOnly != c.reads[1] || mounts[0].HostPath != mounts[1].HostPath {
			t.Error(mounts, err)
		}
		// what is mounted in one place for both can be written to if one of them writes
		w.bind(v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "files", Path: "/x"}})
		p.UID = "u-2"
		w.setup(p)
		if last := w.mounter.done[len(w.mounter.done)-1]; last != c.remote {
			t.Errorf("read-only %v: %q", c.reads, last)
		}
	}
}
