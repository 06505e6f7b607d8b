package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/volumekind"
	"berth/internal/runtime/render"
)

func (w *world) mount(p *v1.Pod, env map[string]string) (render.Mount, error) {
	w.t.Helper()
	mounts, err := w.m.Mounts(context.Background(), p, &p.Spec.Containers[0], env)
	if err != nil {
		return render.Mount{}, err
	}
	return mounts[0], nil
}

func TestMountsCarryWhatTheContainerAsksFor(t *testing.T) {
	w := newWorld(t)
	w.objects.configMaps["cfg"] = &v1.ConfigMap{}
	p := podWith(emptyDir("", ""))
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "cfg", VolumeSource: configMapVolume("cfg")})
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{
		{Name: "vol", MountPath: "/a"},
		{Name: "vol", MountPath: "b/c", ReadOnly: true, MountPropagation: new(v1.MountPropagationHostToContainer)},
		{Name: "cfg", MountPath: "/cfg"},
		{Name: "vol", MountPath: "/d", ReadOnly: true, RecursiveReadOnly: new(v1.RecursiveReadOnlyEnabled)},
		{Name: "vol", MountPath: "/e", ReadOnly: true, RecursiveReadOnly: new(v1.RecursiveReadOnlyIfPossible)},
		{Name: "vol", MountPath: "/f", ReadOnly: true, RecursiveReadOnly: new(v1.RecursiveReadOnlyDisabled)},
	}
	w.setup(p)
	dir := filepath.Join(w.cfg.PodsDir, "u-1", "volumes")
	vol, cfg := filepath.Join(dir, volumekind.EmptyDir.Dir(), "vol"), filepath.Join(dir, volumekind.ConfigMap.Dir(), "cfg")
	const none = v1.MountPropagationNone

	got, err := w.m.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)

	want := []render.Mount{
		{HostPath: vol, ContainerPath: "/a", Propagation: none, SELinuxRelabel: true},
		{HostPath: vol, ContainerPath: "/b/c", ReadOnly: true, Propagation: v1.MountPropagationHostToContainer, SELinuxRelabel: true},
		{HostPath: cfg, ContainerPath: "/cfg", ReadOnly: true, Propagation: none, SELinuxRelabel: true},
		{HostPath: vol, ContainerPath: "/d", ReadOnly: true, RecursiveReadOnly: true, Propagation: none, SELinuxRelabel: true},
		{HostPath: vol, ContainerPath: "/e", ReadOnly: true, RecursiveReadOnly: true, Propagation: none, SELinuxRelabel: true},
		{HostPath: vol, ContainerPath: "/f", ReadOnly: true, Propagation: none, SELinuxRelabel: true},
	}
	if err != nil || len(got) != len(want) {
		t.Fatal(got, err)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v\nwant %+v", got[i], want[i])
		}
	}
}

func TestRecursiveReadOnlyThatTheRuntimeCantDo(t *testing.T) {
	w := newWorld(t)
	w.cfg.RecursiveReadOnly = func(*v1.Pod) bool { return false }
	w.restart()
	p := podWith(emptyDir("", ""))
	vm := &p.Spec.Containers[0].VolumeMounts[0]
	vm.ReadOnly, vm.RecursiveReadOnly = true, new(v1.RecursiveReadOnlyIfPossible)
	w.setup(p)
	if m, err := w.mount(p, nil); err != nil || m.RecursiveReadOnly {
		t.Error(m, err)
	}
	vm.RecursiveReadOnly = new(v1.RecursiveReadOnlyEnabled)
	if _, err := w.mount(p, nil); err == nil || !strings.Contains(err.Error(), "can't do that") {
		t.Error(err)
	}
	vm.ReadOnly = false
	if _, err := w.mount(p, nil); err == nil || !strings.Contains(err.Error(), "needs readOnly") {
		t.Error(err)
	}
}

func TestAVolumeThatIsNotThereIsNotMounted(t *testing.T) {
	w := newWorld(t)
	if _, err := w.mount(podWith(emptyDir("", "")), nil); err == nil || !strings.Contains(err.Error(), `volume "vol": it is not set up`) {
		t.Error(err)
	}
}

func TestSubPath(t *testing.T) {
	w := newWorld(t)
	p := withGroup(podWith(emptyDir("", "")), someGroup())
	w.setup(p)
	vol := w.dir(p)
	vm := &p.Spec.Containers[0].VolumeMounts[0]
	vm.SubPathExpr = "logs/$(POD)-$$(x)"

	m, err := w.mount(p, map[string]string{"POD": "web"})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(w.cfg.PodsDir, "u-1", "volume-subpaths", "vol", "app", "0"); m.HostPath != want || m.SubPath != "" {
		t.Errorf("%+v, want %s", m, want)
	}
	made := filepath.Join(vol, "logs/web-$(x)")
	if want := "bind " + made; len(w.mounter.done) != 1 || w.mounter.done[0] != want {
		t.Errorf("%q, want %q", w.mounter.done, want)
	}
	if got := mode(t, made); got != os.ModeDir|os.ModeSetgid|0o777 {
		t.Error("users of the volume can't use the part:", got)
	}
}

func TestSubPathOfAFile(t *testing.T) {
	w := newWorld(t)
	w.objects.configMaps["cfg"] = &v1.ConfigMap{Data: map[string]string{"app.conf": "x"}}
	p := podWith(configMapVolume("cfg"))
	w.setup(p)
	vol := w.dir(p)
	vm := &p.Spec.Containers[0].VolumeMounts[0]
	vm.SubPath = "app.conf"
	m, err := w.mount(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(m.HostPath); err != nil || !info.Mode().IsRegular() {
		t.Error("a file needs a file to be mounted on", err)
	}
	data, err := os.Readlink(filepath.Join(vol, "..data"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "bind " + filepath.Join(vol, data, "app.conf"); w.mounter.done[len(w.mounter.done)-1] != want {
		t.Errorf("%q, want %q", w.mounter.done, want)
	}

	// A misspelt key must not become an empty directory.
	vm.SubPath = "app.cfg"
	if _, err := w.mount(p, nil); err == nil || !strings.Contains(err.Error(), `subPath "app.cfg": it does not exist in the volume`) {
		t.Error(err)
	}
}

func TestSubPathOfWhatIsOptional(t *testing.T) {
	w := newWorld(t)
	source := configMapVolume("later")
	source.ConfigMap.Optional = new(true)
	p := podWith(source)
	w.setup(p)
	vol := w.dir(p)
	p.Spec.Containers[0].VolumeMounts[0].SubPath = "app.conf"
	if _, err := w.mount(p, nil); err != nil {
		t.Fatal(err)
	}

	w.objects.configMaps["later"] = &v1.ConfigMap{Data: map[string]string{"app.conf": "x"}}
	w.setup(p)

	w.must(vol, map[string]string{"app.conf": "x"})
}

func TestSubPathsThatLeadOut(t *testing.T) {
	w := newWorld(t)
	outside := t.TempDir()
	p := podWith(emptyDir("", ""))
	w.setup(p)
	vol := w.dir(p)
	for name, target := range map[string]string{
		"abs": outside, "up": "../../../..", "loop": "loop", "dangling": "nowhere", "proc": "/proc/self/root",
		"inside": "dir",
	} {
		if err := os.Symlink(target, filepath.Join(vol, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(vol, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	vm := &p.Spec.Containers[0].VolumeMounts[0]
	for _, sub := range []string{"abs", "abs/x", "up", "up/etc", "loop", "proc", "proc/etc"} {
		vm.SubPath = sub
		if _, err := w.mount(p, nil); err == nil || !strings.Contains(err.Error(), "leads out of the volume") {
			t.Errorf("%s: %v", sub, err)
		}
	}
	for _, sub := range []string{"..", "../x", "a/../../x", "/etc", "dangling", "dangling/x", "a\x00"} {
		vm.SubPath = sub
		if _, err := w.mount(p, nil); err == nil {
			t.Errorf("%s is mounted: %v", sub, w.mounter.done)
		}
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Error("made outside of the volume:", left)
	}
	vm.SubPath = "inside"
	if _, err := w.mount(p, nil); err != nil || w.mounter.done[0] != "bind "+filepath.Join(vol, "dir") {
		t.Error(w.mounter.done, err)
	}
}

func TestExpand(t *testing.T) {
	env := map[string]string{"A": "1", "LONG": strings.Repeat("x", 3000), "EMPTY": ""}
	for expr, want := range map[string]string{
		"$(A)/b": "1/b", "$$(A)": "$(A)", "$A": "$A", "$(A": "$(A", "$": "$", "x$$$(A)": "x$1",
	} {
		if got, err := expand(expr, env); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", expr, got, err, want)
		}
	}
	if _, err := expand("$(B)", env); !errors.Is(err, ErrMissing) {
		t.Error(err)
	}
	if _, err := expand("$(LONG)$(LONG)", env); err == nil {
		t.Error("a path longer than any is made")
	}
	for _, expr := range []string{"$(EMPTY)", "/$(A)", "$(EMPTY)../x"} {
		if got, err := subPathOf(&v1.VolumeMount{SubPathExpr: expr}, env); err == nil {
			t.Errorf("%s is %q", expr, got)
		}
	}
}

// Whatever a pod and its variables say, what is opened is in the volume.
func FuzzSubPath(f *testing.F) {
	for _, seed := range []string{"a", "../x", "$(V)", "$(V)/../..", "link/x", "out", "a//b/./c", "/", "$$(V)$", "dir/up/dir", "out/../dir"} {
		f.Add(seed, "..")
	}
	f.Fuzz(func(t *testing.T, expr, value string) {
		vol, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(
			os.Mkdir(filepath.Join(vol, "dir"), 0o700),
			os.Symlink("dir", filepath.Join(vol, "link")),
			os.Symlink("..", filepath.Join(vol, "dir", "up")),
			os.Symlink("/", filepath.Join(vol, "out")),
		); err != nil {
			t.Fatal(err)
		}
		sub, err := subPathOf(&v1.VolumeMount{SubPathExpr: expr}, map[string]string{"V": value})
		if err != nil || sub == "" {
			return
		}
		mounter := &fakeMounter{}
		m := &Manager{cfg: Config{Mounter: mounter}}
		if err := m.subPath(t.Context(), place{path: vol}, sub, filepath.Join(t.TempDir(), "target")); err != nil {
			return
		}
		if at := strings.TrimPrefix(mounter.done[0], "bind "); at != vol && !strings.HasPrefix(at, vol+"/") {
			t.Errorf("%q, %q: %s is mounted", expr, value, at)
		}
	})
}
