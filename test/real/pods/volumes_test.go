//go:build real

package pods

import (
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/runtime/ociarchive"
	"berth/test/fixture"
	"berth/test/real/kit"
)

// serves is the answer of a kit.ReadablePod to a request.
func serves(n *kit.Node, p v1.Pod, path string) string {
	n.T.Helper()
	return strings.TrimSpace(n.WaitAnswer(p.Status.PodIP+":7070", path))
}

// canWrite reports whether a directory can be made at a path in a pod's container.
func canWrite(n *kit.Node, p v1.Pod, path string) bool {
	n.T.Helper()
	return serves(n, p, "/mkdir?path="+url.QueryEscape(path)) == "made"
}

// mountedIn returns the line of the mount table of a pod's container for a place.
func mountedIn(n *kit.Node, p v1.Pod, place string) string {
	n.T.Helper()
	found := kit.Filter(kit.Lines(n.ReadFile(p, "/proc/self/mountinfo")), func(line string) bool { return strings.Fields(line)[4] == place })
	if len(found) == 0 {
		n.T.Fatalf("nothing is mounted on %s in %s", place, p.Name)
	}
	return found[len(found)-1]
}

// waitMessage waits until the message of the first container's waiting state contains says.
func waitMessage(n *kit.Node, name, says string) {
	n.T.Helper()
	n.WaitPod(name, "to say "+says, kit.StartTimeout, func(p v1.Pod) string {
		w := kit.AppStatus(p).State.Waiting
		return kit.MissingUnless(w != nil && strings.Contains(w.Message, says))
	})
}

func hostPath(path string, kind v1.HostPathType) v1.VolumeSource {
	return v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &kind}}
}

func scratch(medium v1.StorageMedium, size string) v1.VolumeSource {
	e := &v1.EmptyDirVolumeSource{Medium: medium}
	if size != "" {
		e.SizeLimit = new(resource.MustParse(size))
	}
	return v1.VolumeSource{EmptyDir: e}
}

func TestVolumesOfTheMachine(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	before := n.Traces(nil)
	given := filepath.Join(n.Dir, "given")
	mustMake(n, given, "file")

	// given a pod with a bit of everything that a machine has
	all := kit.ReadablePod("all")
	all.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(4242)), RunAsUser: new(int64(1000))}
	kit.AddVolume(all, "/disk", scratch("", ""))
	kit.AddVolume(all, "/memory", scratch(v1.StorageMediumMemory, "1Mi"))
	kit.AddVolume(all, "/dir", hostPath(given, v1.HostPathDirectory))
	kit.AddVolume(all, "/file", hostPath(filepath.Join(given, "file"), v1.HostPathFile))
	kit.AddVolume(all, "/made", hostPath(filepath.Join(n.Dir, "made", "by", "berth"), v1.HostPathDirectoryOrCreate))
	kit.AddVolume(all, "/new", hostPath(filepath.Join(given, "new"), v1.HostPathFileOrCreate))
	kit.AddVolume(all, "/any", hostPath(filepath.Join(given, "file"), v1.HostPathUnset))
	kit.AddVolume(all, "/socket", hostPath(filepath.Join(n.Root, "berth.sock"), v1.HostPathSocket))
	kit.AddVolume(all, "/null", hostPath("/dev/null", v1.HostPathCharDev))
	device, _ := fixture.LoopDevice(t, "a disk")
	kit.AddVolume(all, "/block", hostPath(device, v1.HostPathBlockDev))
	kit.AddVolume(all, "/locked", hostPath(given, v1.HostPathDirectory))
	c := &all.Spec.Containers[0]
	last := &c.VolumeMounts[len(c.VolumeMounts)-1]
	last.ReadOnly, last.RecursiveReadOnly = true, new(v1.RecursiveReadOnlyEnabled)
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "disk", MountPath: "/part", SubPathExpr: "of-$(WHO)/deep"},
		v1.VolumeMount{Name: "memory", MountPath: "/kept", SubPath: "kept"})
	c.Env = []v1.EnvVar{{Name: "WHO", Value: "app"}}
	// and pods that ask for what is not there
	bad := map[string]struct {
		source v1.VolumeSource
		says   string
	}{
		"nofile":   {hostPath(filepath.Join(given, "none"), v1.HostPathFile), "is not a file: it does not exist"},
		"nodir":    {hostPath(filepath.Join(given, "file"), v1.HostPathDirectory), "is not a directory"},
		"nosocket": {hostPath(given, v1.HostPathSocket), "is not a socket"},
		"nodevice": {hostPath(given, v1.HostPathBlockDev), "is not a block device"},
		"nonfs":    {v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "192.0.2.1", Path: "/x"}}, "install nfs-common"},
		"nodriver": {v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "none.example.com"}}, `CSI driver "none.example.com" is not registered on this node`},
	}
	pods := []*v1.Pod{all}
	for name, b := range bad {
		p := kit.ReadablePod(name)
		kit.AddVolume(p, "/vol", b.source)
		beside := kit.NewPod("beside", "sleep").Spec.Containers[0]
		beside.Name = "beside"
		p.Spec.Containers = append(p.Spec.Containers, beside)
		pods = append(pods, p)
	}
	n.Apply("pods.yaml", pods...)
	n.Start()
	p := n.WaitRunning("all")["all"]

	// then it finds them
	for _, path := range []string{"/made", "/socket", "/block"} {
		mountedIn(n, p, path)
	}
	for path, want := range map[string]string{"/file": "file", "/any": "file", "/new": "", "/null": ""} {
		if got := n.ReadFile(p, path); got != want {
			t.Errorf("%s holds %q", path, got)
		}
	}
	for path, want := range map[string]bool{"/disk/x": true, "/memory/x": true, "/part/x": true, "/dir/x": false, "/locked/x": false} {
		if got := canWrite(n, p, path); got != want {
			t.Errorf("user 1000 can write %s: %v", path, got)
		}
	}
	if line := mountedIn(n, p, "/memory"); !strings.Contains(line, " tmpfs ") || !strings.Contains(line, "size=1024k") {
		t.Error(line)
	}
	if line := mountedIn(n, p, "/locked"); !strings.Contains(line, " ro,") {
		t.Error(line)
	}
	if _, err := os.Stat(volumeOf(n, p, "kubernetes.io~empty-dir", "disk", "of-app", "deep", "x")); err != nil {
		t.Error(err)
	}
	// and a part that was made for it has the mode of the volume
	if kept, err := os.Stat(volumeOf(n, p, "kubernetes.io~empty-dir", "memory", "kept")); err != nil || kept.Mode().String() != "dgtrwxrwxrwx" {
		t.Errorf("the part of a volume in memory: %v, %v", kept, err)
	}
	var st os.FileInfo
	st, err := os.Stat(volumeOf(n, p, "kubernetes.io~empty-dir", "disk", "x"))
	if err != nil || groupOf(st) != 4242 {
		t.Errorf("what is made in it belongs to group %d: %v", groupOf(st), err)
	}
	// and the others say what is wrong, while those beside them do not care
	for name, b := range bad {
		waitMessage(n, name, b.says)
		n.WaitPod(name, "to run what needs no volume", kit.StartTimeout, func(p v1.Pod) string {
			beside := p.Status.ContainerStatuses[1]
			return kit.MissingUnless(beside.Name == "beside" && beside.State.Running != nil && beside.RestartCount == 0)
		})
		if e := n.WaitEvent(n.Pod(name), "FailedMount"); !strings.Contains(e.Message, b.says) {
			t.Error(name, e.Message)
		}
	}

	// when all is taken down, then nothing is left but what was there before
	n.Down()
	n.MustEqualTraces(before, n.Traces(nil))
	if text, err := os.ReadFile(filepath.Join(given, "file")); err != nil || string(text) != "file" {
		t.Error("data was lost:", err)
	}
}

// volumeOf is a place in a volume of a pod, on the machine.
func volumeOf(n *kit.Node, p v1.Pod, parts ...string) string {
	return filepath.Join(append([]string{n.Root, "pods", string(p.UID), "volumes"}, parts...)...)
}

// mustMake makes a directory with files that hold their names.
func mustMake(n *kit.Node, dir string, files ...string) {
	n.T.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.T.Fatal(err)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f), []byte(f), 0o644); err != nil {
			n.T.Fatal(err)
		}
	}
}

func TestASubPathCantLeaveItsVolume(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	mustMake(n, filepath.Join(n.Dir, "precious"), "file")
	shared := filepath.Join(n.Dir, "shared")
	mustMake(n, shared)
	// given links that a container could have planted
	for link, to := range map[string]string{"up": "../precious", "absolute": filepath.Join(n.Dir, "precious"), "root": "/", "inside": "."} {
		if err := os.Symlink(to, filepath.Join(shared, link)); err != nil {
			t.Fatal(err)
		}
	}
	part := func(name, sub string) *v1.Pod {
		p := kit.ReadablePod(name)
		kit.AddVolume(p, "/vol", hostPath(shared, v1.HostPathDirectory))
		p.Spec.Containers[0].VolumeMounts[0].SubPath = sub
		return p
	}
	n.Apply("pods.yaml", part("up", "up"), part("absolute", "absolute"), part("root", "root/etc"), part("inside", "inside/new"))
	n.Start()

	// then nothing but what is inside is shown
	if p := n.WaitRunning("inside")["inside"]; !canWrite(n, p, "/vol/x") {
		t.Error("a link that stays inside is of no use")
	}
	for _, name := range []string{"up", "absolute", "root"} {
		n.WaitPod(name, "to be refused", kit.StartTimeout, func(p v1.Pod) string {
			w := kit.AppStatus(p).State.Waiting
			return kit.MissingUnless(w != nil && w.Reason == "CreateContainerConfigError" && strings.Contains(w.Message, "leads out of the volume"))
		})
	}
	if left, err := os.ReadDir(filepath.Join(n.Dir, "precious")); len(left) != 1 || err != nil {
		t.Error(left, err)
	}
}

func TestMountsTravelAsFarAsAsked(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	shared := filepath.Join(n.Dir, "shared")
	mustMake(n, shared)
	mustBeShared(n, shared)
	pod := func(name string, how v1.MountPropagationMode) *v1.Pod {
		p := kit.ReadablePod(name)
		kit.AddVolume(p, "/vol", hostPath(shared, v1.HostPathDirectory))
		p.Spec.Containers[0].VolumeMounts[0].MountPropagation = &how
		return p
	}
	up := pod("up", v1.MountPropagationBidirectional)
	up.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Privileged: new(true)} // others may not
	up.Spec.Containers[0].Args = []string{"mount", "/vol/within"}
	mustMake(n, filepath.Join(shared, "within"))
	// and one that mounts something in a directory of berth's own
	own := kit.ReadablePod("own")
	kit.AddVolume(own, "/vol", scratch("", ""))
	own.Spec.Containers[0].VolumeMounts[0].MountPropagation = new(v1.MountPropagationBidirectional)
	own.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Privileged: new(true)}
	own.Spec.Containers[0].Args = []string{"mount", "/vol"}
	n.Apply("pods.yaml", pod("none", v1.MountPropagationNone), pod("down", v1.MountPropagationHostToContainer), up, own)
	n.Start()
	pods := n.WaitRunning("none", "down", "up", "own")

	// when something is mounted on the machine, then those who want to see it do
	mustMake(n, filepath.Join(shared, "new"))
	mountTmpfs(n, filepath.Join(shared, "new"))
	mustMake(n, filepath.Join(shared, "new"), "file")
	if got := n.ReadFile(pods["down"], "/vol/new/file"); got != "file" {
		t.Error(got)
	}
	if got := n.ReadFile(pods["none"], "/proc/self/mountinfo"); strings.Contains(got, "/vol/new ") {
		t.Error(got)
	}

	// and what a container mounts is seen on the machine, if that was asked for
	within := filepath.Join(shared, "within")
	t.Cleanup(func() { _ = syscall.Unmount(within, 0) })
	for _, at := range []string{within, volumeOf(n, pods["own"], "kubernetes.io~empty-dir", "vol")} {
		n.Wait("the mount of the container on "+at, kit.StartTimeout, func() string {
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			return kit.MissingUnless(err == nil && strings.Contains(string(mounts), " "+at+" "))
		})
	}
	// until the pod is gone
	n.RemoveManifest("pods.yaml")
	n.WaitGone("own")
}

func TestReadOnlyWithAllThatIsBelow(t *testing.T) {
	t.Parallel()
	// given a directory with something mounted below it, and a pod that has it in every way
	n := kit.NewNode(t)
	given := filepath.Join(n.Dir, "given")
	mustMake(n, filepath.Join(given, "below"))
	mountTmpfs(n, filepath.Join(given, "below"))
	web := kit.ReadablePod("web")
	for _, m := range []v1.VolumeMount{
		{MountPath: "/open"},
		{MountPath: "/plain", ReadOnly: true},
		{MountPath: "/perhaps", ReadOnly: true, RecursiveReadOnly: new(v1.RecursiveReadOnlyIfPossible)},
		{MountPath: "/locked", ReadOnly: true, RecursiveReadOnly: new(v1.RecursiveReadOnlyEnabled)},
	} {
		kit.AddVolume(web, m.MountPath, hostPath(given, v1.HostPathDirectory))
		last := &web.Spec.Containers[0].VolumeMounts[len(web.Spec.Containers[0].VolumeMounts)-1]
		last.ReadOnly, last.RecursiveReadOnly = m.ReadOnly, m.RecursiveReadOnly
	}
	n.Apply("web.yaml", web)
	n.Start()
	p := n.WaitRunning("web")["web"]

	// then it can write where it may
	for path, want := range map[string]bool{
		"/open/1": true, "/open/below/1": true, "/plain/2": false, "/plain/below/2": true,
		"/perhaps/3": false, "/perhaps/below/3": false, "/locked/4": false, "/locked/below/4": false,
	} {
		if got := canWrite(n, p, path); got != want {
			t.Errorf("it can write %s: %v", path, got)
		}
	}
	// and its status tells, also that of an agent that did not see it start
	mustShowMounts(n)
	n.KillAgent()
	n.Start()
	n.WaitRunning("web")
	mustShowMounts(n)
}

// mustShowMounts checks the mounts of the pod of TestReadOnlyWithAllThatIsBelow in 'berth get' and 'berth describe'.
func mustShowMounts(n *kit.Node) {
	n.T.Helper()
	got := n.MustBerth("get", "pods", "web", "-o", `jsonpath={range .status.containerStatuses[0].volumeMounts[*]}{.name} {.mountPath} {.readOnly} {.recursiveReadOnly}{"\n"}{end}`)
	if want := "open /open  \nplain /plain true Disabled\nperhaps /perhaps true Enabled\nlocked /locked true Enabled\n"; got != want {
		n.T.Errorf("its mounts are\n%s, and should be\n%s", got, want)
	}
	text := n.MustBerth("describe", "pods", "web")
	for _, line := range []string{"/open from open (rw)", "/plain from plain (ro)", "/perhaps from perhaps (ro)", "/locked from locked (ro)"} {
		if !strings.Contains(text, line) {
			n.T.Errorf("no %q in\n%s", line, text)
		}
	}
}

func TestAnImageAsAVolume(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	n.AddImage("data.tar", dataImage(t, "localhost/data:1"))
	web := kit.ReadablePod("web")
	image := v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "localhost/data:1", PullPolicy: v1.PullIfNotPresent}}
	kit.AddVolume(web, "/data", image)
	c := &web.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "data", MountPath: "/part", SubPath: "models"})
	missing := kit.ReadablePod("missing")
	kit.AddVolume(missing, "/data", v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "localhost/none:1", PullPolicy: v1.PullNever}})
	n.Apply("pods.yaml", web, missing)
	n.Start()
	p := n.WaitRunning("web")["web"]

	if got := n.ReadFile(p, "/data/models/one"); got != "1" {
		t.Errorf("it holds %q", got)
	}
	if got := n.ReadFile(p, "/part/one"); got != "1" {
		t.Errorf("its part holds %q", got)
	}
	if canWrite(n, p, "/data/x") || canWrite(n, p, "/part/x") {
		t.Error("it can be written to")
	}
	waitMessage(n, "missing", "is not present with pull policy of Never")
	n.AddImage("none.tar", dataImage(t, "localhost/none:1"))
	n.WaitRunning("missing")
}

func dataImage(t *testing.T, tag string) []byte {
	t.Helper()
	return kit.WorkloadArchive(t, tag, func(w io.Writer, image ociarchive.Image) error {
		image.Files = []ociarchive.File{{Path: "/models/one", Mode: 0o644, Data: []byte("1")}}
		image.Entrypoint = nil
		return ociarchive.Write(w, image)
	})
}

func TestAReaderNeverSeesAMix(t *testing.T) {
	t.Parallel()
	// given a container that reads two ConfigMaps of one file in one volume, all the time
	n := kit.NewNode(t)
	reader := kit.NewPod("reader", "versions", "/all", "/report/versions")
	kit.AddVolume(reader, "/report", scratch("", ""))
	kit.AddVolume(reader, "/all", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "a"}, Items: []v1.KeyToPath{{Key: "colour", Path: "both-a"}}}},
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "b"}, Items: []v1.KeyToPath{{Key: "colour", Path: "both-b"}}}},
	}}})
	set := func(version int) {
		for _, value := range fixture.Numbered("both", 1, version) {
			n.ApplyObjects("maps.yaml", kit.NewConfigMap("a", value), kit.NewConfigMap("b", value))
		}
	}
	set(0)
	n.Apply("reader.yaml", reader)
	n.Start()
	p := n.WaitRunning("reader")["reader"]
	before := n.Instances(map[string]v1.Pod{"reader": p})
	file := volumeOf(n, p, "kubernetes.io~empty-dir", "report", "versions")

	// when the file changes again and again, then both are always of the same version
	const updates = 50
	seen := fixture.AwaitVersions(t, file, 0, "both")
	for i := 1; i <= updates; i++ {
		set(i)
		seen = fixture.AwaitVersions(t, file, i, "both")
	}
	t.Logf("in the container, %d reads found %d versions", seen.Reads, seen.Seen)
	if seen.Seen != updates+1 {
		t.Errorf("it saw %d versions", seen.Seen)
	}
	n.MustKeepInstances(before)
}
