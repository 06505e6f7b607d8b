//go:build real

package intake

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/real/kit"
)

func TestObjectsOfTheFolder(t *testing.T) {
	t.Parallel()
	// given a pod with a ConfigMap and a Secret, in one file and in another
	n := kit.NewNode(t)
	web := kit.WithConfigMap(kit.NewPod("web", "serve", ":7070"), "settings")
	kit.AddVolume(web, "/etc/key", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "key"}})
	n.ApplyObjects("web.yaml", web, kit.NewSecret("key"))
	n.ApplyObjects("settings.yaml", kit.NewConfigMap("settings", "red"))
	n.Start()
	p := n.WaitRunning("web")["web"]
	before := n.Instances(map[string]v1.Pod{"web": p})

	// then it finds them
	if env := n.WaitAnswer(p.Status.PodIP+":7070", "/env"); !strings.Contains(env, "COLOUR=red\n") {
		t.Errorf("its environment is %q", env)
	}
	if colour, word := n.ReadFile(p, "/etc/cfg/colour"), n.ReadFile(p, "/etc/key/word"); colour != "red" || word != kit.SecretText {
		t.Errorf("its files hold %q and %q", colour, word)
	}

	// and secrets are in memory, in files of root, and are not shown anywhere
	mounted := kit.Filter(kit.Lines(n.ReadFile(p, "/proc/mounts")), func(line string) bool { return strings.Contains(line, " /etc/key ") })
	if len(mounted) != 1 || !strings.HasPrefix(mounted[0], "tmpfs ") {
		t.Errorf("it is mounted as %q", mounted)
	}
	for path, mode := range map[string]os.FileMode{"sources": 0o700, "sources/file.json": 0o600} {
		info, err := os.Stat(filepath.Join(n.Root, path))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s is %s", path, info.Mode())
		}
	}

	// when the ConfigMap is edited
	n.ApplyObjects("settings.yaml", kit.NewConfigMap("settings", "blue"))

	// then the file changes, and nothing is restarted (how soon is measured by TestVolumesFollowTheFolderWithinASecond)
	n.Wait("the file to change", 10*time.Second, func() string { return kit.MissingUnless(n.ReadFile(p, "/etc/cfg/colour") == "blue") })
	n.MustKeepInstances(before)

	// when it is broken, then the last good version stays, and the mistake is logged
	n.ReplaceFile(filepath.Join(n.Manifests, "settings.yaml"), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: 7}\n"))
	n.Wait("the refusal", 10*time.Second, func() string { return kit.MissingUnless(len(n.Refusals()) == 1) })
	got := n.Berth("get", "pods")
	if want := "settings.yaml:4: data[colour]: must be text, but is the number 7: put it in quotes (ConfigMap default/settings; "; !strings.Contains(got.Stderr, want) {
		t.Errorf("get pods does not say %q: %s", want, got)
	}

	// when the agent is killed and started again, then it is there for pods old and new
	n.KillAgent()
	n.Start()
	n.WaitRunning("web")
	n.ApplyObjects("late.yaml", kit.WithConfigMap(kit.NewPod("late", "serve", ":7070"), "settings"))
	late := n.WaitRunning("web", "late")["late"]
	if env := n.WaitAnswer(late.Status.PodIP+":7070", "/env"); !strings.Contains(env, "COLOUR=blue\n") {
		t.Errorf("its environment is %q", env)
	}
	n.MustKeepInstances(before)
	if colour := n.ReadFile(p, "/etc/cfg/colour"); colour != "blue" {
		t.Errorf("the file holds %q", colour)
	}
	if strings.Contains(kit.Tail(n.LogFile(), 1<<20)+got.String(), kit.SecretText) {
		t.Error("the secret is reported")
	}
}

func TestMissingObject(t *testing.T) {
	t.Parallel()
	// given pods that lack a ConfigMap: as a variable, and as a volume
	n := kit.NewNode(t)
	variable, folder := kit.WithConfigMap(kit.NewPod("variable", "sleep"), "settings"), kit.WithConfigMap(kit.NewPod("folder", "sleep"), "settings")
	variable.Spec.Volumes, variable.Spec.Containers[0].VolumeMounts = nil, nil
	folder.Spec.Containers[0].Env = nil
	n.Apply("pods.yaml", variable, folder)
	n.Start()

	// then both wait, and say for what
	n.WaitPod("variable", "waits", kit.StartTimeout, func(p v1.Pod) string {
		w := kit.AppStatus(p).State.Waiting
		return kit.MissingUnless(w != nil && w.Reason == "CreateContainerConfigError" && strings.Contains(w.Message, `configmap "settings" not found`))
	})
	n.Wait("the event", kit.StartTimeout, func() string {
		return kit.MissingUnless(len(kit.Filter(kit.Lines(n.MustBerth("get", "events", "--for", "folder")), func(line string) bool {
			return strings.Contains(line, "FailedMount") && strings.Contains(line, `configmap "settings" not found`)
		})) > 0)
	})

	// when it appears, then they run
	appeared := time.Now()
	n.ApplyObjects("settings.yaml", kit.NewConfigMap("settings", "red"))
	n.WaitRunning("variable", "folder")
	t.Logf("they run after %s", time.Since(appeared).Round(time.Millisecond))
}

func TestClaimsOfTheFolder(t *testing.T) {
	t.Parallel()
	// given a claim, a volume that fits, and a class
	n := kit.NewNode(t)
	claim := kit.NewClaim("data")
	class := &nodev1.RuntimeClass{
		TypeMeta: metav1.TypeMeta{APIVersion: "node.k8s.io/v1", Kind: "RuntimeClass"}, ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Handler: "runc",
	}
	pod := func(word string) *v1.Pod {
		p := kit.NewPod("web", "serve", ":7070")
		p.Spec.RuntimeClassName = new("plain")
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "EDITION", Value: word}}
		kit.AddVolume(p, "/data", kit.ClaimVolume("data"))
		return p
	}
	n.ApplyObjects("web.yaml", pod("first"), claim, class, n.NewLocalVolume("large", "2Gi"))
	n.Start()
	first := n.WaitRunning("web")["web"]
	if name := n.ReadFile(first, "/data/name"); name != "large" {
		t.Errorf("its volume is %q", name)
	}

	// when a better one comes, and the agent and the pod are others
	n.KillAgent()
	n.ApplyObjects("web.yaml", pod("second"), claim, class, n.NewLocalVolume("large", "2Gi"), n.NewLocalVolume("exact", "1Gi"))
	n.Start()
	second := n.WaitPod("web", "is another one", kit.StartTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(p.UID != first.UID && kit.IsRunning(p))
	})

	// then it is still the same
	if name := n.ReadFile(second, "/data/name"); name != "large" {
		t.Errorf("its volume is %q", name)
	}
}
