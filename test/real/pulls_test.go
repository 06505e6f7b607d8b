//go:build real

package real

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
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
	program := `#!/bin/sh
cat > "$0.asked"
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry",
"auth":{"` + h.host + `":{"username":"robot","password":"` + password + `"}}}'
`
	config := `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: helper
  matchImages: ["` + h.host + `"]
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`
	for name, text := range map[string]string{"helper": program, "providers.yaml": config} {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.apply("pod.yaml", podOf("web", image))
	n.start("--image-credential-provider-config", filepath.Join(n.dir, "providers.yaml"), "--image-credential-provider-bin-dir", n.dir)

	// then the image comes
	n.waitRunning("web")
	asked, err := os.ReadFile(filepath.Join(n.dir, "helper.asked"))
	if err != nil || !strings.Contains(string(asked), h.host+"/team/app") {
		t.Errorf("it was asked %q, %v", asked, err)
	}
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
	// given an image that takes minutes to come
	n := newNode(t)
	h := n.newHub(false)
	h.slow = 500 * time.Millisecond
	image := h.push("team/large:1", 8<<20)
	n.apply("pod.yaml", podOf("web", image))
	n.start()

	// then the pod says how much is here
	n.waitPod("web", "tells of its pull", startLimit, func(p v1.Pod) string {
		w := app(p).State.Waiting
		return boolText(w != nil && strings.Contains(w.Message, "Pulling image") && strings.Contains(w.Message, " of "))
	})

	// when the pod goes, then the pull does
	n.remove("pod.yaml")
	n.waitGone("web")
	n.wait("the pull to end", 20*time.Second, func() string {
		h.mu.Lock()
		defer h.mu.Unlock()
		return boolText(h.gone > 0)
	})
}
