//go:build real

package runtime

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/api"
	"berth/internal/runtime/ociarchive"
	"berth/test/real/kit"
)

func TestImageCommands(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	h := n.NewRegistry(false)
	image := h.Push("team/app:1", 1000)
	n.Start()
	ok := func(args ...string) string {
		t.Helper()
		got := n.Berth(args...)
		if got.Code != 0 {
			t.Fatalf("berth %v: %s", args, got)
		}
		return got.Out + got.Stderr
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if got := n.Berth(args...); got.Code == 0 || !strings.Contains(got.Stderr, want) {
			t.Errorf("berth %v: %s, want %q", args, got, want)
		}
	}

	// An image comes and goes.
	ok("image", "pull", image)
	if out := ok("image", "ls"); !strings.Contains(out, h.Host+"/team/app") {
		t.Errorf("ls: %s", out)
	}
	n.Apply("pod.yaml", podOf("web", image))
	n.WaitRunning("web")
	refused("pod default/web-node uses it", "image", "rm", image)
	n.RemoveManifest("pod.yaml")
	n.WaitGone("web")
	ok("image", "rm", image)
	refused("there is no image", "image", "rm", image)

	// What can't be pulled says why.
	refused("not found", "image", "pull", h.Host+"/team/none:1")
	refused("can't be the name", "image", "pull", "NO")

	// An archive is loaded, by name and from a pipe, and a pod that waited for it runs.
	late := podOf("late", "localhost/loaded:1")
	late.Spec.Containers[0].ImagePullPolicy = "Never"
	n.Apply("late.yaml", late)
	file := filepath.Join(n.Dir, "loaded.tar")
	if err := os.WriteFile(file, kit.WorkloadArchive(t, "localhost/loaded:1", ociarchive.WriteDocker), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := ok("image", "load", file); !strings.Contains(out, "localhost/loaded:1") {
		t.Errorf("load: %s", out)
	}
	n.WaitRunning("late")
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

func TestImagesMakeRoom(t *testing.T) {
	t.Parallel()
	// given a small disk with three large images, one of which is in use
	n := kit.NewNode(t)
	n.MountSmallDisk("200")
	t.Cleanup(func() { // before the disk goes
		n.End()
		n.Agent = nil
	})
	n.AddImage("workload.tar", kit.WorkloadArchive(t, kit.WorkloadImage, ociarchive.Write))
	n.Configure("imageGCHighThresholdPercent: 60\nimageGCLowThresholdPercent: 55\nimageMinimumGCAge: 1ms\n")
	h := n.NewRegistry(false)
	images := map[string]string{}
	for _, name := range []string{"first", "used", "last"} {
		images[name] = h.Push(name+":1", 20<<20)
	}
	n.Start()
	n.Apply("pod.yaml", podOf("web", images["used"]))
	n.WaitRunning("web")
	report := func(args ...string) api.GCReport {
		t.Helper()
		got := n.Berth(append([]string{"gc", "-o", "json"}, args...)...)
		var r api.GCReport
		if err := json.Unmarshal([]byte(got.Out), &r); err != nil {
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
		if got := n.Berth("image", "pull", images[name]); got.Code != 0 {
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
		if strings.HasPrefix(i.Name, "localhost/workload") && !strings.Contains(i.Message, "its archive is in the folder") {
			t.Errorf("%+v", i)
		}
	}
	did := report()
	if got := goes(did); len(got) == 0 || got[0] != "first" || did.Freed == 0 {
		t.Fatalf("went: %v of %+v", got, did)
	}
	n.Wait("room", kit.StartTimeout, func() string {
		now := report("--dry-run")
		return kit.MissingUnless(now.Available > would.Available && len(goes(now)) == 0)
	})
	if p := n.Pod("web"); !kit.IsRunning(p) {
		t.Error("the pod does not run any more")
	}
	if out := n.Berth("image", "ls").Out; strings.Contains(out, "/first") || !strings.Contains(out, "/used") {
		t.Errorf("left are:\n%s", out)
	}
}
