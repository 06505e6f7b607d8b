//go:build real

package runtime

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/runtime/ociarchive"
	"berth/test/fixture"
	"berth/test/real/kit"
)

func TestTwentyPodsPullOnce(t *testing.T) {
	t.Parallel()
	// given a registry, and many pods that want the same image of it
	n := kit.NewNode(t)
	h := n.NewRegistry(false)
	image := h.Push("team/app:1", 1<<20)
	pods, names := kit.NumberedPods("same", 20, "sleep")
	for _, p := range pods {
		p.Spec.Containers[0].Image = image
	}
	n.Apply("pods.yaml", pods...)

	// when they start, then the image comes once
	n.Start()
	n.WaitRunning(names...)
	if got := h.Count(http.MethodHead, "/manifests/1") + h.Count(http.MethodGet, "/manifests/1"); got != 1 {
		t.Errorf("the tag was looked up %d times", got)
	}
	if got := h.Count(http.MethodGet, ""); got > 4 { // the version, manifest, config, layer
		t.Errorf("%d requests: %v", got, h.Requests)
	}

	// and the pods say where it came from
	if p := n.Pod("same-00"); kit.AppStatus(p).Image != image || !strings.Contains(kit.AppStatus(p).ImageID, "sha256:") {
		t.Errorf("the status has image %q %q", kit.AppStatus(p).Image, kit.AppStatus(p).ImageID)
	}
}

func TestPrivateImages(t *testing.T) {
	t.Parallel()
	// given a registry with TLS that wants a login
	n := kit.NewNode(t)
	h := n.NewRegistry(true)
	h.User = "alice"
	image, other := h.Push("private/app:1", 1000), h.Push("private/other:1", 1000)
	applySecret(n, "key", h.Login("alice"))
	applySecret(n, "wrong", h.Login("bob"))
	n.Apply("alice.yaml", podOf("alice", image, "wrong", "key"))
	n.Apply("bob.yaml", podOf("bob", image, "wrong"))
	n.Start()

	// then who has the right secret gets it
	n.WaitRunning("alice")
	waitRefused(n, "bob", "401")

	// and no other pod may use it, although it is on the machine
	n.Apply("carol.yaml", podOf("carol", image), podOf("dave", image, "nothing"))
	waitRefused(n, "carol", "authorization failed")
	waitRefused(n, "dave", "default/nothing not found")
	n.Apply("erin.yaml", podOf("erin", image, "key"))
	n.WaitRunning("erin")

	// when the agent is started anew, then that is still so
	n.Stop()
	n.Start()
	n.Apply("frank.yaml", podOf("frank", image))
	waitRefused(n, "frank", "authorization failed")

	// when the machine has a login, then all pods may use it
	if err := os.WriteFile(filepath.Join(n.Root, "config.json"), []byte(h.Login("alice")), 0o600); err != nil {
		t.Fatal(err)
	}
	n.Apply("grace.yaml", podOf("grace", other))
	n.WaitRunning("grace", "frank", "carol")
}

func TestCredentialProvider(t *testing.T) {
	t.Parallel()
	// given a registry that wants a login, and a program that knows it
	n := kit.NewNode(t)
	h := n.NewRegistry(false)
	h.User = "robot"
	image := h.Push("team/app:1", 1000)
	program := "#!/bin/sh\ncat > \"$0.asked\"\necho '" + fixture.ProviderAnswer(h.Host, "robot") + "'\n"
	n.Apply("pod.yaml", podOf("web", image))
	n.Start(fixture.CredentialProvider(t, n.Dir, h.Host, program, "")...)

	// then the image comes
	n.WaitRunning("web")
	asked, err := os.ReadFile(filepath.Join(n.Dir, "helper.asked"))
	if err != nil || !strings.Contains(string(asked), h.Host+"/team/app") {
		t.Errorf("it was asked %q, %v", asked, err)
	}
}

func TestACredentialProviderThatHangs(t *testing.T) {
	t.Parallel()
	// given a program that knows nothing and starts something, and more images than are
	// pulled at a time whose registry it is asked for
	n := kit.NewNode(t)
	h, other := n.NewRegistry(false), n.NewRegistry(false)
	program := "#!/bin/sh\nsleep 3600 & echo $! >> \"$0.started\"; wait\n"
	pods, names := kit.NumberedPods("waits", 6, "sleep")
	for i, p := range pods {
		p.Spec.Containers[0].Image = h.Push(fmt.Sprintf("team/app%d:1", i), 1000)
	}
	n.Apply("waits.yaml", pods...)
	n.Start(fixture.CredentialProvider(t, n.Dir, h.Host, program, "")...)

	// then their pods say so
	for _, name := range names {
		n.WaitPod(name, "says that the plugin does not answer", kit.StartTimeout, func(p v1.Pod) string {
			w := kit.AppStatus(p).State.Waiting
			return kit.MissingUnless(w != nil && strings.Contains(w.Message, "a credential provider plugin does not answer"))
		})
	}

	// and an image of another registry comes
	n.Apply("other.yaml", podOf("other", other.Push("team/app:1", 1000)))
	n.WaitRunning("other")

	// when the pods go, then nothing of the program is left
	n.RemoveManifest("waits.yaml")
	n.WaitGone(names...)
	started, err := os.ReadFile(filepath.Join(n.Dir, "helper.started"))
	if err != nil {
		t.Fatal(err)
	}
	for pid := range strings.FieldsSeq(string(started)) {
		n.Wait("process "+pid+" to end", kit.StartTimeout, func() string {
			line, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
			return kit.MissingUnless(err != nil || !strings.Contains(string(line), "3600"))
		})
	}
}

func TestAnImportedImageAndAPullThatIsCutOff(t *testing.T) {
	t.Parallel()
	// given an image that was imported, and a pod that wants it anew from a registry which hangs
	n := kit.NewNode(t)
	h := n.NewRegistry(false)
	h.Mute = true
	image := h.Host + "/team/app:1"
	n.AddImage("app.tar", kit.WorkloadArchive(t, image, ociarchive.Write))
	eager := podOf("eager", image)
	eager.Spec.Containers[0].ImagePullPolicy = v1.PullAlways
	n.Apply("eager.yaml", eager)
	n.Start()
	n.Wait("the pull to begin", kit.StartTimeout, func() string { return kit.MissingUnless(h.Count(http.MethodHead, "")+h.Count(http.MethodGet, "") > 0) })

	// then others use what is there
	n.Apply("calm.yaml", podOf("calm", image))
	n.WaitRunning("calm")

	// when the agent is killed in the middle of the pull, then they still do
	n.KillAgent()
	if left, err := os.ReadDir(filepath.Join(n.Root, "image_manager", "pulling")); err != nil || len(left) != 1 {
		t.Errorf("the pull was not cut off: %v, %v", left, err)
	}
	n.RemoveManifest("eager.yaml")
	n.Start()
	n.Apply("late.yaml", podOf("late", image))
	n.WaitRunning("calm", "late")

	// when the records of images are broken, then the agent starts, and no pod may use the image
	ref := n.Pod("late").Status.ContainerStatuses[0].ImageID
	n.Stop()
	for _, file := range []string{"pulling/sha256-1", "pulled/" + fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(ref)))} {
		if err := os.WriteFile(filepath.Join(n.Root, "image_manager", file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.Set(func() { h.Mute, h.Status = false, http.StatusInternalServerError })
	n.Start()
	n.Apply("refused.yaml", podOf("refused", image))
	waitRefused(n, "refused", "500")

	// when the image is loaded, then it is for all
	file := filepath.Join(n.Dir, "again.tar")
	n.ReplaceFile(file, kit.WorkloadArchive(t, image, ociarchive.Write))
	n.MustBerth("image", "load", file)
	n.WaitRunning("refused")
}

func TestRegistriesThatMisbehave(t *testing.T) {
	t.Parallel()
	// given a registry that answers with errors
	n := kit.NewNode(t)
	h := n.NewRegistry(false)
	image, broken := h.Push("team/app:1", 1000), h.Push("team/broken:1", 1<<20)
	h.Status = http.StatusInternalServerError
	n.Apply("pod.yaml", podOf("web", image))
	n.Start()

	// then the pod says so
	waitRefused(n, "web", "500")
	h.Set(func() { h.Status = http.StatusTooManyRequests })
	waitRefused(n, "web", "429")

	// when the registry is well again, then the pod runs, also after half a layer
	h.Set(func() { h.Status, h.CutLayers = 0, 1 })
	n.Apply("broken.yaml", podOf("broken", broken))
	n.WaitRunning("web", "broken")
	if h.CutLayers != 0 {
		t.Error("no layer was broken off")
	}

	// when it sends more than it said, then nothing of that is used
	h.Set(func() { h.WrongLength = true })
	n.Apply("liar.yaml", podOf("liar", h.Push("team/liar:1", 1<<20)))
	waitRefused(n, "liar", "")
	h.Set(func() { h.WrongLength = false })
	n.WaitRunning("liar")
}

func TestASlowPull(t *testing.T) {
	t.Parallel()
	// given an image that takes long to come
	n := kit.NewNode(t)
	h := n.NewRegistry(false)
	h.ChunkDelay = 100 * time.Millisecond
	image := h.Push("team/large:1", 48<<20)
	n.Apply("pod.yaml", podOf("web", image))
	n.Start()

	// then the pod says how much is here, how fast it comes, and how long it will take
	progress := regexp.MustCompile(`Pulling image "\S+": \S+Mi of \d+Mi, (\d+|\d\.\d)[KM]i/s, \S+s left`)
	for _, args := range [][]string{{"get", "pods", "-o", "wide"}, {"describe", "pod", "web"}} {
		n.Wait(fmt.Sprint("berth ", args, " to tell of the pull"), kit.StartTimeout, func() string {
			out := n.MustBerth(args...)
			if line := progress.FindString(out); line != "" {
				t.Log(args[0], "says:", line)
				return ""
			}
			return out
		})
	}

	// when the pod goes, then the pull does
	n.RemoveManifest("pod.yaml")
	n.WaitGone("web")
	n.Wait("the pull to end", 20*time.Second, func() string {
		h.Mu.Lock()
		defer h.Mu.Unlock()
		return kit.MissingUnless(h.ReadersGone > 0)
	})

	// and a pull by hand gets the same error
	byHand := exec.Command(n.Program, "image", "pull", image, "--root-dir", n.Root)
	out, err := byHand.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Inside(byHand.Start); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = byHand.Process.Kill()
		_ = byHand.Wait()
	}()
	line := regexp.MustCompile(`^pull \S+ \S+Mi of \d+Mi, \S+i/s, \S+s left$`)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if line.MatchString(lines.Text()) {
			t.Log("image pull says:", lines.Text())
			return
		}
	}
	t.Error("'berth image pull' did not tell how it comes")
}

func TestRegistriesThatHang(t *testing.T) {
	t.Parallel()
	// given a registry that never answers, and one that stops in the middle of a layer
	n := kit.NewNode(t)
	mute, stuck := n.NewRegistry(false), n.NewRegistry(false)
	mute.Mute, stuck.Stall = true, true
	n.Apply("mute.yaml", podOf("mute", mute.Push("team/app:1", 1000)))
	n.Apply("stuck.yaml", podOf("stuck", stuck.Push("team/large:1", 8<<20)))
	small := stuck.Push("team/small:1", 100<<10)
	n.Apply("small.yaml", podOf("small", small))
	n.Start("--image-pull-progress-deadline", "25s")
	began := time.Now()

	// then they say that nothing comes
	for name, what := range map[string]string{"mute": `: nothing came for \d+s`, "stuck": `: \S+Mi of \S+Mi, nothing came for \d+s`} {
		pattern := regexp.MustCompile(`Pulling image "\S+"` + what)
		n.WaitPod(name, "says that nothing comes", kit.StartTimeout, func(p v1.Pod) string {
			w := kit.AppStatus(p).State.Waiting
			return kit.MissingUnless(w != nil && pattern.MatchString(w.Message))
		})
	}

	// and give up, and say why
	waitRefused(n, "mute", "timeout awaiting response headers")
	t.Logf("mute was given up after %s", time.Since(began).Round(time.Second))
	for _, name := range []string{"stuck", "small"} {
		waitRefused(n, name, "nothing came from the registry for 25s")
		t.Logf("%s was given up after %s", name, time.Since(began).Round(time.Second))
	}
	for what, h := range map[string]*kit.Registry{"mute": mute, "stuck": stuck} {
		h.Set(func() {
			if h.ReadersGone == 0 {
				t.Errorf("nobody hung up on the registry that is %s", what)
			}
		})
	}

	// when the registries answer again, then the pods run
	mute.Set(func() { mute.Mute = false })
	stuck.Set(func() { stuck.Stall = false })
	n.WaitRunning("mute", "stuck", "small")
}
