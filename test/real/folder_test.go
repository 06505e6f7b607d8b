//go:build real

package real

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func TestAJobThatWasRemovedWhileTheAgentWasDownDoesNotRunAgain(t *testing.T) {
	t.Parallel()
	// given a job that has run, and a pod, of which a teardown left nothing
	n := newNode(t)
	n.apply("job.yaml", withPolicy(v1.RestartPolicyNever, newPod("job", "exit", "0")))
	n.apply("web.yaml", newPod("web", "sleep"))
	n.start()
	n.waitRunning("web")
	job := n.waitPod("job", "has run", startLimit, func(p v1.Pod) string { return boolText(p.Status.Phase == v1.PodSucceeded) })
	n.waitEvent(job, "Started")
	n.down()

	// when its manifest is removed, and the agent comes back to a folder that takes a while to read
	n.remove("job.yaml")
	for i := range 10 {
		var text strings.Builder
		fmt.Fprintf(&text, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large-%d}\ndata:\n", i)
		for key := range 20_000 {
			fmt.Fprintf(&text, "  key-%d: value\n", key)
		}
		n.put(filepath.Join(n.manifests, fmt.Sprintf("large-%d.yaml", i)), []byte(text.String()))
	}
	n.start()

	// then the other pod runs again, and the job has run once
	n.waitRunning("web")
	n.waitGone("job")
	started := 0
	for _, e := range n.eventsOf(job) {
		if e.Reason == "Started" {
			started += int(max(1, e.Count))
		}
	}
	if started != 1 {
		t.Errorf("it was started %d times", started)
	}
	for _, c := range n.containers() {
		if c.Labels[pod.LabelPodUID] == string(job.UID) {
			t.Errorf("it has a container: %v", c)
		}
	}
}

func TestAManifestIsReadWhenItsWriterClosesIt(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()

	// given a manifest of which all is a good one but for its last lines, which confine it
	p := newPod("slow", "sleep")
	whole := string(manifest(t, p)) + "  securityContext:\n    runAsUser: 1234\n"
	whole = strings.Replace(whole, "status: {}\n", "", 1)
	file, err := os.Create(filepath.Join(n.manifests, "slow.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	// when it is written in three parts, then nothing comes of it, though the folder is read meanwhile
	at := strings.Index(whole, "  securityContext:")
	for i, part := range []string{whole[:at], whole[at : at+20], whole[at+20:]} {
		if _, err := file.WriteString(part); err != nil {
			t.Fatal(err)
		}
		tick := fmt.Sprintf("tick-%d", i)
		n.apply(tick+".yaml", newPod(tick, "sleep"))
		n.waitRunning(tick)
		if found, there := n.pods()["slow"]; there {
			t.Fatalf("part %d was acted on: %s", i, summary(found))
		}
	}
	n.wait("the refusal of a file that stays open", 20*time.Second, func() string {
		return boolText(slices.ContainsFunc(n.refused(), func(r pod.Refusal) bool { return strings.Contains(r.Message, "open for writing") }))
	})

	// when it is closed, then the pod runs as its manifest says
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	slow := n.waitRunning("slow")["slow"]
	if c := slow.Spec.SecurityContext; c == nil || c.RunAsUser == nil || *c.RunAsUser != 1234 {
		t.Errorf("it runs with %+v", c)
	}
	if refused := n.refused(); len(refused) > 0 {
		t.Errorf("refused: %v", refused)
	}
}

func TestAPodRunsOnceItsHostPortIsFree(t *testing.T) {
	t.Parallel()
	// given two pods that want the same port of the machine
	n := newNode(t)
	server := func(name, word string) *v1.Pod {
		p := newPod(name, "serve", ":7070")
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 7070, HostPort: 7071}}
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "WORD", Value: word}}
		return p
	}
	n.apply("first.yaml", server("first", "one"))
	n.start()
	n.waitRunning("first")
	n.apply("second.yaml", server("second", "two"))
	second := n.waitPod("second", "is rejected", startLimit, func(p v1.Pod) string {
		return boolText(p.Status.Phase == v1.PodFailed && p.Status.Reason == pod.ReasonNodePorts)
	})

	// when the first goes, then the second runs by itself, as the same pod
	n.remove("first.yaml")
	if now := n.waitRunning("second")["second"]; now.UID != second.UID {
		t.Errorf("it was %s and is %s", second.UID, now.UID)
	}
	n.waitEvent(second, "Admitted")
	n.waitGone("first")
	n.wait("the port to be the second's", 10*time.Second, func() string {
		answer, err := n.get("127.0.0.1:7071", "/env")
		if err != nil {
			return err.Error()
		}
		return boolText(strings.Contains(answer, "WORD=two\n"))
	})
}

// remembered changes what the agent remembers of the pod of a file.
func (n *node) remembered(file string, change func(spec map[string]any)) {
	n.t.Helper()
	path := filepath.Join(n.root, "sources", "file.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		n.t.Fatal(err)
	}
	state := map[string]any{}
	if err := json.Unmarshal(raw, &state); err != nil {
		n.t.Fatal(err)
	}
	origins, _ := state["origins"].(map[string]any)
	objects, _ := origins[filepath.Join(n.manifests, file)].([]any)
	if len(objects) == 0 {
		n.t.Fatalf("nothing is remembered of %s: %s", file, raw)
	}
	object, _ := objects[0].(map[string]any)
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		n.t.Fatalf("what is remembered of %s has no spec: %s", file, raw)
	}
	change(spec)
	if raw, err = json.Marshal(state); err != nil {
		n.t.Fatal(err)
	}
	n.put(path, raw)
}

func TestAnUpgradeLeavesPodsAlone(t *testing.T) {
	t.Parallel()
	// given pods that another version of berth took in: one with another default, one
	// that this one refuses, one that it can't read, and one that it can
	n := newNode(t)
	for _, name := range []string{"default", "refused", "unread", "good"} {
		n.apply(name+".yaml", newPod(name, "sleep"))
	}
	n.start()
	before := n.lives(n.waitRunning("default", "refused", "unread", "good"))
	uids := map[string]string{}
	for name, p := range n.pods() {
		uids[name] = string(p.UID)
	}
	n.crash()
	n.remembered("default.yaml", func(spec map[string]any) { spec["schedulerName"] = "another-default" })
	refused := newPod("refused", "sleep")
	refused.Spec.RestartPolicy = "Sometimes"
	n.apply("refused.yaml", refused)
	n.remembered("refused.yaml", func(spec map[string]any) { spec["restartPolicy"] = "Sometimes" })
	n.put(filepath.Join(n.manifests, "unread.yaml"), []byte(strings.Replace(string(manifest(t, newPod("unread", "sleep"))), "spec:\n", "spec:\n  engine: 8\n", 1)))
	n.remembered("unread.yaml", func(spec map[string]any) { spec["engine"] = 8 })

	// when this version is started, then they all go on, and it says what is wrong
	n.start()
	n.wait("the folder to be read", startLimit, func() string { return boolText(len(n.refused()) >= 3) })
	n.apply("tick.yaml", newPod("tick", "sleep"))
	n.waitRunning("tick", "default", "good")
	n.mustLiveOn(before)
	for name, p := range n.pods() {
		if was := uids[name]; was != "" && was != string(p.UID) {
			t.Errorf("%s was %s and is %s", name, was, p.UID)
		}
	}
	if got := n.berth("get", "pods"); !strings.Contains(got.out, "ManifestUnreadable") || !strings.Contains(got.stderr, "engine") || !strings.Contains(got.stderr, "restartPolicy") {
		t.Errorf("got %s", got)
	}
	n.waitEvent(n.pod("unread"), "ManifestUnreadable")
	n.waitEvent(n.pod("refused"), "ManifestRefused")

	// and over another restart
	n.crash()
	n.start()
	n.waitRunning("tick", "default", "good")
	n.mustLiveOn(before)

	// when the manifest is mended, then the pod is replaced
	mended := newPod("unread", "sleep")
	mended.Labels = map[string]string{"mended": "yes"}
	n.apply("unread.yaml", mended)
	n.waitPod("unread", "is another one", startLimit, func(p v1.Pod) string {
		return boolText(isRunning(p) && string(p.UID) != uids["unread"])
	})
	n.waitSettled("default", "refused", "good", "tick", "unread")
}
