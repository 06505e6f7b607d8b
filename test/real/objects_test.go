//go:build real

package real

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// secretText is what must show up nowhere but in the container.
const secretText = "hush-hush-8c1f"

func newMap(name, colour string) *v1.ConfigMap {
	return &v1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Data: map[string]string{"colour": colour},
	}
}

func newSecret(name string) *v1.Secret {
	return &v1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		StringData: map[string]string{"word": secretText},
	}
}

// readsMap gives a pod the variable COLOUR and the folder /etc/cfg of a ConfigMap.
func readsMap(p *v1.Pod, name string) *v1.Pod {
	c := &p.Spec.Containers[0]
	c.Env = append(c.Env, v1.EnvVar{Name: "COLOUR", ValueFrom: &v1.EnvVarSource{
		ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: "colour"},
	}})
	mount(p, "/etc/cfg", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}})
	return p
}

func mount(p *v1.Pod, path string, source v1.VolumeSource) {
	c := &p.Spec.Containers[0]
	name := strings.ReplaceAll(strings.Trim(path, "/"), "/", "-")
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: path})
}

// save writes objects into a file of the folder.
func (n *node) save(file string, objects ...any) {
	n.t.Helper()
	var docs [][]byte
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			n.t.Fatal(err)
		}
		docs = append(docs, text)
	}
	n.put(filepath.Join(n.manifests, file), bytes.Join(docs, []byte("---\n")))
}

// contentOf reads a file in a pod's container.
func (n *node) contentOf(p v1.Pod, path string) string {
	n.t.Helper()
	return n.waitAnswer(p.Status.PodIP+":7070", "/file?path="+path)
}

func TestObjectsOfTheFolder(t *testing.T) {
	t.Parallel()
	// given a pod with a ConfigMap and a Secret, in one file and in another
	n := newNode(t)
	web := readsMap(newPod("web", "serve", ":7070"), "settings")
	mount(web, "/etc/key", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "key"}})
	n.save("web.yaml", web, newSecret("key"))
	n.save("settings.yaml", newMap("settings", "red"))
	n.start()
	p := n.waitRunning("web")["web"]
	before := n.lives(map[string]v1.Pod{"web": p})

	// then it finds them
	if env := n.waitAnswer(p.Status.PodIP+":7070", "/env"); !strings.Contains(env, "COLOUR=red\n") {
		t.Errorf("its environment is %q", env)
	}
	if colour, word := n.contentOf(p, "/etc/cfg/colour"), n.contentOf(p, "/etc/key/word"); colour != "red" || word != secretText {
		t.Errorf("its files hold %q and %q", colour, word)
	}

	// and what is secret is in memory, in files of root, and told to nobody
	mounted := filter(lines(n.contentOf(p, "/proc/mounts")), func(line string) bool { return strings.Contains(line, " /etc/key ") })
	if len(mounted) != 1 || !strings.HasPrefix(mounted[0], "tmpfs ") {
		t.Errorf("it is mounted as %q", mounted)
	}
	for path, mode := range map[string]os.FileMode{"sources": 0o700, "sources/file.json": 0o600} {
		info, err := os.Stat(filepath.Join(n.root, path))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s is %s", path, info.Mode())
		}
	}

	// when the ConfigMap is edited
	n.save("settings.yaml", newMap("settings", "blue"))

	// then the file changes, and nothing is restarted (how soon is measured by TestVolumesFollowTheFolderWithinASecond)
	n.wait("the file to change", 10*time.Second, func() string { return boolText(n.contentOf(p, "/etc/cfg/colour") == "blue") })
	n.mustLiveOn(before)

	// when it is broken, then the last good version stays, and it is told
	n.put(filepath.Join(n.manifests, "settings.yaml"), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: 7}\n"))
	n.wait("the refusal", 10*time.Second, func() string { return boolText(len(n.refused()) == 1) })
	got := n.berth("get", "pods")
	if want := "settings.yaml:4: data[colour]: must be text, but is the number 7: put it in quotes (ConfigMap default/settings; "; !strings.Contains(got.stderr, want) {
		t.Errorf("get pods does not say %q: %s", want, got)
	}

	// when the agent is killed and started again, then it is there for pods old and new
	n.crash()
	n.start()
	n.waitRunning("web")
	n.save("late.yaml", readsMap(newPod("late", "serve", ":7070"), "settings"))
	late := n.waitRunning("web", "late")["late"]
	if env := n.waitAnswer(late.Status.PodIP+":7070", "/env"); !strings.Contains(env, "COLOUR=blue\n") {
		t.Errorf("its environment is %q", env)
	}
	n.mustLiveOn(before)
	if colour := n.contentOf(p, "/etc/cfg/colour"); colour != "blue" {
		t.Errorf("the file holds %q", colour)
	}
	if strings.Contains(tail(n.logFile(), 1<<20)+got.String(), secretText) {
		t.Error("the secret is told")
	}
}

func TestMissingObject(t *testing.T) {
	t.Parallel()
	// given pods that lack a ConfigMap: as a variable, and as a volume
	n := newNode(t)
	variable, folder := readsMap(newPod("variable", "sleep"), "settings"), readsMap(newPod("folder", "sleep"), "settings")
	variable.Spec.Volumes, variable.Spec.Containers[0].VolumeMounts = nil, nil
	folder.Spec.Containers[0].Env = nil
	n.apply("pods.yaml", variable, folder)
	n.start()

	// then both wait, and say for what
	n.waitPod("variable", "waits", startLimit, func(p v1.Pod) string {
		w := app(p).State.Waiting
		return boolText(w != nil && w.Reason == "CreateContainerConfigError" && strings.Contains(w.Message, `configmap "settings" not found`))
	})
	n.wait("the event", startLimit, func() string {
		return boolText(len(filter(lines(n.must("get", "events", "--for", "folder")), func(line string) bool {
			return strings.Contains(line, "FailedMount") && strings.Contains(line, `configmap "settings" not found`)
		})) > 0)
	})

	// when it appears, then they run
	appeared := time.Now()
	n.save("settings.yaml", newMap("settings", "red"))
	n.waitRunning("variable", "folder")
	t.Logf("they run after %s", time.Since(appeared).Round(time.Millisecond))
}

func TestClaimsOfTheFolder(t *testing.T) {
	t.Parallel()
	// given a claim, a volume that fits, and a class
	n := newNode(t)
	claim := newClaim("data")
	class := &nodev1.RuntimeClass{
		TypeMeta: metav1.TypeMeta{APIVersion: "node.k8s.io/v1", Kind: "RuntimeClass"}, ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Handler: "runc",
	}
	pod := func(word string) *v1.Pod {
		p := newPod("web", "serve", ":7070")
		p.Spec.RuntimeClassName = new("plain")
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "EDITION", Value: word}}
		mount(p, "/data", claimed("data"))
		return p
	}
	n.save("web.yaml", pod("first"), claim, class, n.newDisk("large", "2Gi"))
	n.start()
	first := n.waitRunning("web")["web"]
	if name := n.contentOf(first, "/data/name"); name != "large" {
		t.Errorf("its volume is %q", name)
	}

	// when a better one comes, and the agent and the pod are others
	n.crash()
	n.save("web.yaml", pod("second"), claim, class, n.newDisk("large", "2Gi"), n.newDisk("exact", "1Gi"))
	n.start()
	second := n.waitPod("web", "is another one", startLimit, func(p v1.Pod) string {
		return boolText(p.UID != first.UID && isRunning(p))
	})

	// then it is still the same
	if name := n.contentOf(second, "/data/name"); name != "large" {
		t.Errorf("its volume is %q", name)
	}
}
