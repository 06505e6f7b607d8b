//go:build real

package intake

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/test/real/kit"
)

func TestEditedPodIsReplaced(t *testing.T) {
	t.Parallel()
	// given a pod that holds a port of the machine, in two ways
	n := kit.NewNode(t)
	edition := func(word string) *v1.Pod {
		p := kit.NewPod("web", "serve", ":7070")
		p.Spec.HostNetwork = true
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 7070, HostPort: 7070}}
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "EDITION", Value: word}}
		return p
	}
	n.Apply("web.yaml", edition("first"))
	n.Start()
	first := n.WaitRunning("web")["web"]

	// when its manifest is edited
	n.Apply("web.yaml", edition("second"))

	// then another pod takes its place
	second := n.WaitPod("web", "is another one", kit.StartTimeout, func(p v1.Pod) string {
		if p.UID == first.UID || !kit.IsRunning(p) {
			return "the new pod"
		}
		return ""
	})
	if answer := n.WaitAnswer("127.0.0.1:7070", "/env"); !strings.Contains(answer, "EDITION=second\n") {
		t.Errorf("the new pod answers %q", answer)
	}
	n.WaitSettled("web")

	// and they never ran together: the second could not have had the port
	if restarts := kit.AppStatus(n.Pod("web")).RestartCount; restarts != 0 {
		t.Errorf("the new pod was restarted %d times", restarts)
	}
	if second.Name != first.Name {
		t.Errorf("the pod was %s and is %s", first.Name, second.Name)
	}
}

func TestEditedContainerIsRestarted(t *testing.T) {
	t.Parallel()
	// given a pod whose UID stays, with two containers
	n := kit.NewNode(t)
	p := kit.NewPod("pair", "sleep")
	p.UID = "11111111-2222-3333-4444-555555555555"
	p.Spec.Containers = append(p.Spec.Containers, kit.NewContainer("side", "sleep"))
	n.Apply("pair.yaml", p)
	n.Start()
	before := n.WaitRunning("pair")["pair"]
	if before.UID != p.UID {
		t.Fatalf("its UID is %s", before.UID)
	}
	neighbour := n.Instances(map[string]v1.Pod{"pair": before})
	delete(neighbour, "pair/app")

	// when one of its containers is edited
	p.Spec.Containers[0].Args = []string{"log", "1"}
	n.Apply("pair.yaml", p)

	// then this one is restarted, and the other one and the address stay
	after := n.WaitPod("pair", "runs with the new container", kit.StartTimeout, func(p v1.Pod) string {
		if !kit.IsRunning(p) || kit.ContainerIDs(p)["app"] == kit.ContainerIDs(before)["app"] {
			return "the new container"
		}
		return ""
	})
	if got := kit.AppStatus(after).RestartCount; got != 1 {
		t.Errorf("it has %d restarts", got)
	}
	n.MustKeepInstances(neighbour)
	if after.Status.PodIP != before.Status.PodIP {
		t.Errorf("its address was %s and is %s", before.Status.PodIP, after.Status.PodIP)
	}
	n.WaitSettled("pair")
}

func TestBrokenManifest(t *testing.T) {
	t.Parallel()
	// given a pod that runs
	n := kit.NewNode(t)
	file := filepath.Join(n.Manifests, "web.yaml")
	n.Apply("web.yaml", kit.NewPod("web", "sleep"))
	n.Start()
	before := n.Instances(n.WaitRunning("web"))

	// when its manifest is overwritten by something broken
	broken := strings.Replace(string(kit.Manifest(t, kit.NewPod("web", "sleep"))), "containers:", "contianers:", 1)
	n.ReplaceFile(file, []byte(broken))
	n.Wait("the refusal", 10*time.Second, func() string { return kit.MissingUnless(len(n.Refusals()) > 0) })

	// then it runs on, and both the command and the log say what is wrong and where
	n.MustKeepInstances(before)
	above, _, _ := strings.Cut(broken, "contianers")
	where := fmt.Sprintf("%s:%d", file, 1+strings.Count(above, "\n"))
	if got := n.Berth("get", "pods"); !strings.Contains(got.Stderr, where) || !strings.Contains(got.Stderr, "contianers") {
		t.Errorf("get pods does not tell of %s: %s", where, got)
	}
	if log := kit.Tail(n.LogFile(), 1<<20); !strings.Contains(log, "contianers") || !strings.Contains(log, file) {
		t.Errorf("the log does not tell of %s", file)
	}

	// when the agent is killed and started again, then it still runs on
	n.KillAgent()
	n.Start()
	n.WaitRunning("web")
	n.Wait("the refusal, again", 10*time.Second, func() string { return kit.MissingUnless(len(n.Refusals()) > 0) })
	n.MustKeepInstances(before)

	// when it is mended, then what it says is applied
	n.Apply("web.yaml", kit.NewPod("web", "log", "1"))
	n.WaitPod("web", "is the mended one", kit.StartTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(kit.IsRunning(p) && kit.ContainerIDs(p)["app"] != before["web/app"].ID)
	})
	if refused := n.Refusals(); len(refused) > 0 {
		t.Errorf("still refused: %+v", refused)
	}
}

func TestFolderMovedAway(t *testing.T) {
	t.Parallel()
	// given two pods of a folder
	n := kit.NewNode(t)
	n.Apply("a.yaml", kit.NewPod("a", "sleep"))
	n.Apply("b.yaml", kit.NewPod("b", "sleep"))
	n.Start()
	before := n.Instances(n.WaitRunning("a", "b"))

	// when the folder is moved away, then they run on, and that is logged
	away := n.Manifests + ".away"
	if err := os.Rename(n.Manifests, away); err != nil {
		t.Fatal(err)
	}
	n.Wait("the log to tell that the folder is gone", 40*time.Second, func() string {
		return kit.MissingUnless(strings.Contains(kit.Tail(n.LogFile(), 1<<20), "stat "+n.Manifests+": no such file"))
	})
	n.MustKeepInstances(before)

	// when the agent is killed and started again meanwhile, likewise
	n.KillAgent()
	n.Start()
	n.WaitRunning("a", "b")
	n.MustKeepInstances(before)

	// when it is back, then all is well
	if err := os.Rename(away, n.Manifests); err != nil {
		t.Fatal(err)
	}
	n.Apply("c.yaml", kit.NewPod("c", "sleep"))
	n.WaitRunning("a", "b", "c")
	n.MustKeepInstances(before)

	// when it is emptied, then they go
	n.RemoveManifest("c.yaml")
	n.RemoveManifest("a.yaml")
	n.RemoveManifest("b.yaml")
	n.WaitGone("a", "b", "c")
	n.WaitSettled()
}
