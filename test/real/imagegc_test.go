//go:build real

package real

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/api"
	"berth/internal/runtime/ociarchive"
)

func TestImageCommands(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	h := n.newHub(false)
	image := h.push("team/app:1", 1000)
	n.start()
	ok := func(args ...string) string {
		t.Helper()
		got := n.berth(args...)
		if got.code != 0 {
			t.Fatalf("berth %v: %s", args, got)
		}
		return got.out + got.stderr
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if got := n.berth(args...); got.code == 0 || !strings.Contains(got.stderr, want) {
			t.Errorf("berth %v: %s, want %q", args, got, want)
		}
	}

	// An image comes and goes.
	ok("image", "pull", image)
	if out := ok("image", "ls"); !strings.Contains(out, h.host+"/team/app") {
		t.Errorf("ls: %s", out)
	}
	n.apply("pod.yaml", podOf("web", image))
	n.waitRunning("web")
	refused("pod default/web-node uses it", "image", "rm", image)
	n.remove("pod.yaml")
	n.waitGone("web")
	ok("image", "rm", image)
	refused("there is no image", "image", "rm", image)

	// What can't be pulled says why.
	refused("not found", "image", "pull", h.host+"/team/none:1")
	refused("can't be the name", "image", "pull", "NO")

	// An archive is loaded, by name and from a pipe, and a pod that waited for it runs.
	late := podOf("late", "localhost/loaded:1")
	late.Spec.Containers[0].ImagePullPolicy = "Never"
	n.apply("late.yaml", late)
	file := filepath.Join(n.dir, "loaded.tar")
	if err := os.WriteFile(file, archive(t, "localhost/loaded:1", ociarchive.WriteDocker), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := ok("image", "load", file); !strings.Contains(out, "localhost/loaded:1") {
		t.Errorf("load: %s", out)
	}
	n.waitRunning("late")
	if err := os.WriteFile(file, []byte("nonsense"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused("not an OCI or docker archive", "image", "load", file)

	// There is room: nothing goes, and each image has its reason.
	out := ok("gc", "--dry-run", "--all")
	for _, want := range []string{"uses it", "it is pinned"} {
		if !strings.Contains(out, want) {
			t.Errorf("gc does not say %q:\n%s", want, out)
		}
	}
}

// onSmallDisk puts the root directory of a node on a disk of its own.
func (n *node) onSmallDisk(megabytes string) {
	n.t.Helper()
	disk := filepath.Join(n.dir, "disk")
	run := func(name string, args ...string) {
		n.t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			n.t.Fatalf("%s %v: %v: %s", name, args, err, out)
		}
	}
	if err := os.MkdirAll(filepath.Join(n.dir, "root"), 0o755); err != nil {
		n.t.Fatal(err)
	}
	run("truncate", "-s", megabytes+"M", disk)
	run("mkfs.ext4", "-q", "-m", "0", disk)
	run("mount", "-o", "loop", disk, n.root)
	n.t.Cleanup(func() {
		if out, err := exec.Command("umount", n.root).CombinedOutput(); err != nil {
			n.t.Errorf("umount %s: %v: %s", n.root, err, out)
		}
	})
}

func TestImagesMakeRoom(t *testing.T) {
	t.Parallel()
	// given a small disk with three large images, one of which is in use
	n := newNode(t)
	n.onSmallDisk("200")
	t.Cleanup(func() { // before the disk goes
		n.end()
		n.agent = nil
	})
	n.drop("workload.tar", archive(t, workloadImage, ociarchive.Write))
	n.configure("imageGCHighThresholdPercent: 60\nimageGCLowThresholdPercent: 55\nimageMinimumGCAge: 1ms\n")
	h := n.newHub(false)
	images := map[string]string{}
	for _, name := range []string{"first", "used", "last"} {
		images[name] = h.push(name+":1", 20<<20)
	}
	n.start()
	n.apply("pod.yaml", podOf("web", images["used"]))
	n.waitRunning("web")
	report := func(args ...string) api.GCReport {
		t.Helper()
		got := n.berth(append([]string{"gc", "-o", "json"}, args...)...)
		var r api.GCReport
		if err := json.Unmarshal([]byte(got.out), &r); err != nil {
			t.Fatalf("gc: %s: %v", got, err)
		}
		return r
	}
	goes := func(r api.GCReport) (names []string) {
		for _, i := range r.Items {
			if i.Remove {
				names = append(names, strings.TrimSuffix(filepath.Base(i.Name), ":1"))
			}
		}
		return names
	}
	for _, name := range []string{"first", "last"} {
		if got := n.berth("image", "pull", images[name]); got.code != 0 {
			t.Fatal(got)
		}
		report("--dry-run") // it is seen
	}

	// then it is known what would go, and that goes
	would := report("--dry-run")
	if got := goes(would); len(got) == 0 || got[0] != "first" {
		t.Fatalf("would go: %v of %+v", got, would)
	}
	for _, i := range would.Items {
		if strings.HasPrefix(i.Name, "localhost/workload") && !strings.Contains(i.Why, "its archive is in the folder") {
			t.Errorf("%+v", i)
		}
	}
	did := report()
	if got := goes(did); len(got) == 0 || got[0] != "first" || did.Freed == 0 {
		t.Fatalf("went: %v of %+v", got, did)
	}
	n.wait("room", startLimit, func() string {
		now := report("--dry-run")
		return boolText(now.Available > would.Available && len(goes(now)) == 0)
	})
	if p := n.pod("web"); !isRunning(p) {
		t.Error("the pod does not run any more")
	}
	if out := n.berth("image", "ls").out; strings.Contains(out, "/first") || !strings.Contains(out, "/used") {
		t.Errorf("left are:\n%s", out)
	}
}
