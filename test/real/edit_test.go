//go:build real

package real

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestEditedPodIsReplaced(t *testing.T) {
	t.Parallel()
	// given a pod that holds a port of the machine, in two ways
	n := newNode(t)
	edition := func(word string) *v1.Pod {
		p := newPod("web", "serve", ":7070")
		p.Spec.HostNetwork = true
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 7070, HostPort: 7070}}
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "EDITION", Value: word}}
		return p
	}
	n.apply("web.yaml", edition("first"))
	n.start()
	first := n.waitRunning("web")["web"]

	// when its manifest is edited
	n.apply("web.yaml", edition("second"))

	// then another pod takes its place
	second := n.waitPod("web", "is another one", startLimit, func(p v1.Pod) string {
		if p.UID == first.UID || !isRunning(p) {
			return "the new pod"
		}
		return ""
	})
	if answer := n.waitAnswer("127.0.0.1:7070", "/env"); !strings.Contains(answer, "EDITION=second\n") {
		t.Errorf("the new pod answers %q", answer)
	}
	n.waitSettled("web")

	// and they never ran together: the second could not have had the port
	if restarts := app(n.pod("web")).RestartCount; restarts != 0 {
		t.Errorf("the new pod was restarted %d times", restarts)
	}
	if second.Name != first.Name {
		t.Errorf("the pod was %s and is %s", first.Name, second.Name)
	}
}

func TestEditedContainerIsRestarted(t *testing.T) {
	t.Parallel()
	// given a pod whose UID stays, with two containers
	n := newNode(t)
	p := newPod("pair", "sleep")
	p.UID = "11111111-2222-3333-4444-555555555555"
	p.Spec.Containers = append(p.Spec.Containers, newContainer("side", "sleep"))
	n.apply("pair.yaml", p)
	n.start()
	before := n.waitRunning("pair")["pair"]
	if before.UID != p.UID {
		t.Fatalf("its UID is %s", before.UID)
	}
	neighbour := n.lives(map[string]v1.Pod{"pair": before})
	delete(neighbour, "pair/app")

	// when one of its containers is edited
	p.Spec.Containers[0].Args = []string{"log", "1"}
	n.apply("pair.yaml", p)

	// then this one is restarted, and the other one and the address stay
	after := n.waitPod("pair", "runs with the new container", startLimit, func(p v1.Pod) string {
		if !isRunning(p) || ids(p)["app"] == ids(before)["app"] {
			return "the new container"
		}
		return ""
	})
	if got := app(after).RestartCount; got != 1 {
		t.Errorf("it has %d restarts", got)
	}
	n.mustLiveOn(neighbour)
	if after.Status.PodIP != before.Status.PodIP {
		t.Errorf("its address was %s and is %s", before.Status.PodIP, after.Status.PodIP)
	}
	n.waitSettled("pair")
}

func TestBrokenManifest(t *testing.T) {
	t.Parallel()
	// given a pod that runs
	n := newNode(t)
	file := filepath.Join(n.manifests, "web.yaml")
	n.apply("web.yaml", newPod("web", "sleep"))
	n.start()
	before := n.lives(n.waitRunning("web"))

	// when its manifest is overwritten by something broken
	broken := strings.Replace(string(manifest(t, newPod("web", "sleep"))), "containers:", "contianers:", 1)
	n.put(file, []byte(broken))
	n.wait("the refusal", 10*time.Second, func() string { return boolText(len(n.refused()) > 0) })

	// then it runs on, and both the command and the log say what is wrong and where
	n.mustLiveOn(before)
	above, _, _ := strings.Cut(broken, "contianers")
	where := fmt.Sprintf("%s:%d", file, 1+strings.Count(above, "\n"))
	if got := n.berth("get", "pods"); !strings.Contains(got.stderr, where) || !strings.Contains(got.stderr, "contianers") {
		t.Errorf("get pods does not tell of %s: %s", where, got)
	}
	if log := tail(n.logFile(), 1<<20); !strings.Contains(log, "contianers") || !strings.Contains(log, file) {
		t.Errorf("the log does not tell of %s", file)
	}

	// when the agent is killed and started again, then it still runs on
	n.crash()
	n.start()
	n.waitRunning("web")
	n.wait("the refusal, again", 10*time.Second, func() string { return boolText(len(n.refused()) > 0) })
	n.mustLiveOn(before)

	// when it is mended, then what it says is applied
	n.apply("web.yaml", newPod("web", "log", "1"))
	n.waitPod("web", "is the mended one", startLimit, func(p v1.Pod) string {
		return boolText(isRunning(p) && ids(p)["app"] != before["web/app"].id)
	})
	if refused := n.refused(); len(refused) > 0 {
		t.Errorf("still refused: %+v", refused)
	}
}

func TestFolderMovedAway(t *testing.T) {
	t.Parallel()
	// given two pods of a folder
	n := newNode(t)
	n.apply("a.yaml", newPod("a", "sleep"))
	n.apply("b.yaml", newPod("b", "sleep"))
	n.start()
	before := n.lives(n.waitRunning("a", "b"))

	// when the folder is moved away, then they run on, and it is told
	away := n.manifests + ".away"
	if err := os.Rename(n.manifests, away); err != nil {
		t.Fatal(err)
	}
	n.wait("the log to tell that the folder is gone", 40*time.Second, func() string {
		return boolText(strings.Contains(tail(n.logFile(), 1<<20), "stat "+n.manifests+": no such file"))
	})
	n.mustLiveOn(before)

	// when the agent is killed and started again meanwhile, likewise
	n.crash()
	n.start()
	n.waitRunning("a", "b")
	n.mustLiveOn(before)

	// when it is back, then all is well
	if err := os.Rename(away, n.manifests); err != nil {
		t.Fatal(err)
	}
	n.apply("c.yaml", newPod("c", "sleep"))
	n.waitRunning("a", "b", "c")
	n.mustLiveOn(before)

	// when it is emptied, then they go
	n.remove("c.yaml")
	n.remove("a.yaml")
	n.remove("b.yaml")
	n.waitGone("a", "b", "c")
	n.waitSettled()
}

// boolText is what is missing as long as a condition does not hold.
func boolText(holds bool) string {
	if holds {
		return ""
	}
	return "it"
}
