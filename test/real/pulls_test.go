//go:build real

package real

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
)

func TestTwentyPodsPullOnce(t *testing.T) {
	t.Parallel()
	// given a registry, and many pods that want the same image of it
	n := newNode(t)
	h := n.newHub(false)
	image := h.push("team/app:1", 1<<20)
	pods, names := numbered("same", 20, "sleep")
	for _, p := range pods {
		p.Spec.Containers[0].Image = image
	}
	n.apply("pods.yaml", pods...)

	// when they start, then the image comes once
	n.start()
	n.waitRunning(names...)
	if got := h.count(http.MethodHead, "/manifests/1") + h.count(http.MethodGet, "/manifests/1"); got != 1 {
		t.Errorf("the tag was looked up %d times", got)
	}
	if got := h.count(http.MethodGet, ""); got > 4 { // the version, manifest, config, layer
		t.Errorf("%d requests: %v", got, h.asked)
	}

	// and the pods say where it came from
	if p := n.pod("same-00"); app(p).Image != image || !strings.Contains(app(p).ImageID, "sha256:") {
		t.Errorf("the status has image %q %q", app(p).Image, app(p).ImageID)
	}
}

func TestPrivateImages(t *testing.T) {
	t.Parallel()
	// given a registry with TLS that wants a login
	n := newNode(t)
	h := n.newHub(true)
	h.user = "alice"
	image, other := h.push("private/app:1", 1000), h.push("private/other:1", 1000)
	n.applySecret("key", h.login("alice"))
	n.applySecret("wrong", h.login("bob"))
	n.apply("alice.yaml", podOf("alice", image, "wrong", "key"))
	n.apply("bob.yaml", podOf("bob", image, "wrong"))
	n.start()

	// then who has the right secret gets it
	n.waitRunning("alice")
	n.waitRefused("bob", "401")

	// and it is for nobody else, although it is there
	n.apply("carol.yaml", podOf("carol", image), podOf("dave", image, "nothing"))
	n.waitRefused("carol", "authorization failed")
	n.waitRefused("dave", "default/nothing not found")
	n.apply("erin.yaml", podOf("erin", image, "key"))
	n.waitRunning("erin")

	// when the agent is started anew, then that is still so
	n.stop()
	n.start()
	n.apply("frank.yaml", podOf("frank", image))
	n.waitRefused("frank", "authorization failed")

	// when the machine has a login, then all pods may use it
	if err := os.WriteFile(filepath.Join(n.root, "config.json"), []byte(h.login("alice")), 0o600); err != nil {
		t.Fatal(err)
	}
	n.apply("grace.yaml", podOf("grace", other))
	n.waitRunning("grace", "frank", "carol")
}

func TestCredentialProvider(t *testing.T) {
	t.Parallel()
	// given a registry that wants a login, and a program that knows it
	n := newNode(t)
	h := n.newHub(false)
	h.user = "robot"
	image := h.push("team/app:1", 1000)
	program := "#!/bin/sh\ncat > \"$0.asked\"\necho '" + fixture.ProviderAnswer(h.host, "robot") + "'\n"
	n.apply("pod.yaml", podOf("web", image))
	n.start(fixture.CredentialProvider(t, n.dir, h.host, program, "")...)

	// then the image comes
	n.waitRunning("web")
	asked, err := os.ReadFile(filepath.Join(n.dir, "helper.asked"))
	if err != nil || !strings.Contains(string(asked), h.host+"/team/app") {
		t.Errorf("it was asked %q, %v", asked, err)
	}
}

func TestACredentialProviderThatHangs(t *testing.T) {
	t.Parallel()
	// given a program that knows nothing and starts something, and more images than are
	// pulled at a time whose registry it is asked for
	n := newNode(t)
	h, other := n.newHub(false), n.newHub(false)
	program := "#!/bin/sh\nsleep 3600 & echo $! >> \"$0.started\"; wait\n"
	pods, names := numbered("waits", 6, "sleep")
	for i, p := range pods {
		p.Spec.Containers[0].Image = h.push(fmt.Sprintf("team/app%d:1", i), 1000)
	}
	n.apply("waits.yaml", pods...)
	n.start(fixture.CredentialProvider(t, n.dir, h.host, program, "")...)

	// then their pods say so
	for _, name := range names {
		n.waitPod(name, "says that the plugin does not answer", startLimit, func(p v1.Pod) string {
			w := app(p).State.Waiting
			return boolText(w != nil && strings.Contains(w.Message, "a credential provider plugin does not answer"))
		})
	}

	// and an image of another registry comes
	n.apply("other.yaml", podOf("other", other.push("team/app:1", 1000)))
	n.waitRunning("other")

	// when the pods go, then nothing of the program is left
	n.remove("waits.yaml")
	n.waitGone(names...)
	started, err := os.ReadFile(filepath.Join(n.dir, "helper.started"))
	if err != nil {
		t.Fatal(err)
	}
	for pid := range strings.FieldsSeq(string(started)) {
		n.wait("process "+pid+" to end", startLimit, func() string {
			line, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
			return boolText(err != nil || !strings.Contains(string(line), "3600"))
		})
	}
}

func TestAnImportedImageAndAPullThatIsCutOff(t *testing.T) {
	t.Parallel()
	// given an image that was imported, and a pod that wants it anew from a registry which hangs
	n := newNode(t)
	h := n.newHub(false)
	h.mute = true
	image := h.host + "/team/app:1"
	n.drop("app.tar", archive(t, image, ociarchive.Write))
	eager := podOf("eager", image)
	eager.Spec.Containers[0].ImagePullPolicy = v1.PullAlways
	n.apply("eager.yaml", eager)
	n.start()
	n.wait("the pull to begin", startLimit, func() string { return boolText(h.count(http.MethodHead, "")+h.count(http.MethodGet, "") > 0) })

	// then others use what is there
	n.apply("calm.yaml", podOf("calm", image))
	n.waitRunning("calm")

	// when the agent is killed in the middle of the pull, then they still do
	n.crash()
	if left, err := os.ReadDir(filepath.Join(n.root, "image_manager", "pulling")); err != nil || len(left) != 1 {
		t.Errorf("the pull was not cut off: %v, %v", left, err)
	}
	n.remove("eager.yaml")
	n.start()
	n.apply("late.yaml", podOf("late", image))
	n.waitRunning("calm", "late")

	// when the memory of images is broken, then the agent starts, and lets nobody in
	ref := n.pod("late").Status.ContainerStatuses[0].ImageID
	n.stop()
	for _, file := range []string{"pulling/sha256-1", "pulled/" + fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(ref)))} {
		if err := os.WriteFile(filepath.Join(n.root, "image_manager", file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.set(func() { h.mute, h.status = false, http.StatusInternalServerError })
	n.start()
	n.apply("refused.yaml", podOf("refused", image))
	n.waitRefused("refused", "500")

	// when the image is loaded, then it is for all
	file := filepath.Join(n.dir, "again.tar")
	n.put(file, archive(t, image, ociarchive.Write))
	n.must("image", "load", file)
	n.waitRunning("refused")
}

func TestRegistriesThatMisbehave(t *testing.T) {
	t.Parallel()
	// given a registry that answers with errors
	n := newNode(t)
	h := n.newHub(false)
	image, broken := h.push("team/app:1", 1000), h.push("team/broken:1", 1<<20)
	h.status = http.StatusInternalServerError
	n.apply("pod.yaml", podOf("web", image))
	n.start()

	// then the pod says so
	n.waitRefused("web", "500")
	h.set(func() { h.status = http.StatusTooManyRequests })
	n.waitRefused("web", "429")

	// when the registry is well again, then the pod runs, also after half a layer
	h.set(func() { h.status, h.cut = 0, 1 })
	n.apply("broken.yaml", podOf("broken", broken))
	n.waitRunning("web", "broken")
	if h.cut != 0 {
		t.Error("no layer was broken off")
	}

	// when it sends more than it said, then nothing of that is used
	h.set(func() { h.lies = true })
	n.apply("liar.yaml", podOf("liar", h.push("team/liar:1", 1<<20)))
	n.waitRefused("liar", "")
	h.set(func() { h.lies = false })
	n.waitRunning("liar")
}

func TestASlowPull(t *testing.T) {
	t.Parallel()
	// given an image that takes long to come
	n := newNode(t)
	h := n.newHub(false)
	h.slow = 100 * time.Millisecond
	image := h.push("team/large:1", 48<<20)
	n.apply("pod.yaml", podOf("web", image))
	n.start()

	// then the pod says how much is here, how fast it comes, and how long it will take
	told := regexp.MustCompile(`Pulling image "\S+": \S+Mi of \d+Mi, (\d+|\d\.\d)[KM]i/s, \S+s left`)
	for _, args := range [][]string{{"get", "pods", "-o", "wide"}, {"describe", "pod", "web"}} {
		n.wait(fmt.Sprint("berth ", args, " to tell of the pull"), startLimit, func() string {
			out := n.must(args...)
			if line := told.FindString(out); line != "" {
				t.Log(args[0], "says:", line)
				return ""
			}
			return out
		})
	}

	// when the pod goes, then the pull does
	n.remove("pod.yaml")
	n.waitGone("web")
	n.wait("the pull to end", 20*time.Second, func() string {
		h.mu.Lock()
		defer h.mu.Unlock()
		return boolText(h.gone > 0)
	})

	// and who pulls by hand is told the same
	byHand := exec.Command(n.program, "image", "pull", image, "--root-dir", n.root)
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
	n := newNode(t)
	mute, stuck := n.newHub(false), n.newHub(false)
	mute.mute, stuck.stuck = true, true
	n.apply("mute.yaml", podOf("mute", mute.push("team/app:1", 1000)))
	n.apply("stuck.yaml", podOf("stuck", stuck.push("team/large:1", 8<<20)))
	small := stuck.push("team/small:1", 100<<10)
	n.apply("small.yaml", podOf("small", small))
	n.start("--image-pull-progress-deadline", "25s")
	began := time.Now()

	// then they say that nothing comes
	for name, what := range map[string]string{"mute": `: nothing came for \d+s`, "stuck": `: \S+Mi of \S+Mi, nothing came for \d+s`} {
		pattern := regexp.MustCompile(`Pulling image "\S+"` + what)
		n.waitPod(name, "says that nothing comes", startLimit, func(p v1.Pod) string {
			w := app(p).State.Waiting
			return boolText(w != nil && pattern.MatchString(w.Message))
		})
	}

	// and give up, and say why
	n.waitRefused("mute", "timeout awaiting response headers")
	t.Logf("mute was given up after %s", time.Since(began).Round(time.Second))
	for _, name := range []string{"stuck", "small"} {
		n.waitRefused(name, "nothing came from the registry for 25s")
		t.Logf("%s was given up after %s", name, time.Since(began).Round(time.Second))
	}
	for what, h := range map[string]*hub{"mute": mute, "stuck": stuck} {
		h.set(func() {
			if h.gone == 0 {
				t.Errorf("nobody hung up on the registry that is %s", what)
			}
		})
	}

	// when the registries answer again, then the pods run
	mute.set(func() { mute.mute = false })
	stuck.set(func() { stuck.stuck = false })
	n.waitRunning("mute", "stuck", "small")
}
