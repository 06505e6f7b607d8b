//go:build real

package intake

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
	"berth/test/real/kit"
)

func TestAJobThatWasRemovedWhileTheAgentWasDownDoesNotRunAgain(t *testing.T) {
	t.Parallel()
	// given a job that has run, and a pod, of which a teardown left nothing
	n := kit.NewNode(t)
	n.Apply("job.yaml", kit.WithRestartPolicy(v1.RestartPolicyNever, kit.NewPod("job", "exit", "0")))
	n.Apply("web.yaml", kit.NewPod("web", "sleep"))
	n.Start()
	n.WaitRunning("web")
	job := n.WaitPod("job", "has run", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(p.Status.Phase == v1.PodSucceeded) })
	n.WaitEvent(job, "Started")
	n.Down()

	// when its manifest is removed, and the agent comes back to a folder that takes a while to read
	n.RemoveManifest("job.yaml")
	for i := range 10 {
		var text strings.Builder
		fmt.Fprintf(&text, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large-%d}\ndata:\n", i)
		for key := range 20_000 {
			fmt.Fprintf(&text, "  key-%d: value\n", key)
		}
		n.ReplaceFile(filepath.Join(n.Manifests, fmt.Sprintf("large-%d.yaml", i)), []byte(text.String()))
	}
	n.Start()

	// then the other pod runs again, and the job has run once
	n.WaitRunning("web")
	n.WaitGone("job")
	started := 0
	for _, e := range n.Events(job) {
		if e.Reason == "Started" {
			started += int(max(1, e.Count))
		}
	}
	if started != 1 {
		t.Errorf("it was started %d times", started)
	}
	for _, c := range n.Containers() {
		if c.Labels[pod.LabelPodUID] == string(job.UID) {
			t.Errorf("it has a container: %v", c)
		}
	}
}

func TestAManifestIsReadWhenItsWriterClosesIt(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	n.Start()

	// given a manifest of which all is a good one but for its last lines, which confine it
	p := kit.NewPod("slow", "sleep")
	whole := string(kit.Manifest(t, p)) + "  securityContext:\n    runAsUser: 1234\n"
	whole = strings.Replace(whole, "status: {}\n", "", 1)
	file, err := os.Create(filepath.Join(n.Manifests, "slow.yaml"))
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
		n.Apply(tick+".yaml", kit.NewPod(tick, "sleep"))
		n.WaitRunning(tick)
		if found, there := n.Pods()["slow"]; there {
			t.Fatalf("part %d was acted on: %s", i, kit.Summary(found))
		}
	}
	n.Wait("the refusal of a file that stays open", 20*time.Second, func() string {
		return kit.MissingUnless(slices.ContainsFunc(n.Refusals(), func(r pod.Refusal) bool { return strings.Contains(r.Message, "open for writing") }))
	})

	// when it is closed, then the pod runs as its manifest says
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	slow := n.WaitRunning("slow")["slow"]
	if c := slow.Spec.SecurityContext; c == nil || c.RunAsUser == nil || *c.RunAsUser != 1234 {
		t.Errorf("it runs with %+v", c)
	}
	if refused := n.Refusals(); len(refused) > 0 {
		t.Errorf("refused: %v", refused)
	}
}

func TestAPodRunsOnceItsHostPortIsFree(t *testing.T) {
	t.Parallel()
	// given two pods that want the same port of the machine
	n := kit.NewNode(t)
	server := func(name, word string) *v1.Pod {
		p := kit.NewPod(name, "serve", ":7070")
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 7070, HostPort: 7071}}
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "WORD", Value: word}}
		return p
	}
	n.Apply("first.yaml", server("first", "one"))
	n.Start()
	n.WaitRunning("first")
	n.Apply("second.yaml", server("second", "two"))
	second := n.WaitPod("second", "is rejected", kit.StartTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(p.Status.Phase == v1.PodFailed && p.Status.Reason == pod.ReasonNodePorts)
	})

	// when the first goes, then the second runs by itself, as the same pod
	n.RemoveManifest("first.yaml")
	if now := n.WaitRunning("second")["second"]; now.UID != second.UID {
		t.Errorf("it was %s and is %s", second.UID, now.UID)
	}
	n.WaitEvent(second, "Admitted")
	n.WaitGone("first")
	n.Wait("the port to be the second's", 10*time.Second, func() string {
		answer, err := n.Get("127.0.0.1:7071", "/env")
		if err != nil {
			return err.Error()
		}
		return kit.MissingUnless(strings.Contains(answer, "WORD=two\n"))
	})
}

// editRecord changes the agent's record of the pod of a file.
func editRecord(n *kit.Node, file string, change func(spec map[string]any)) {
	n.T.Helper()
	path := filepath.Join(n.Root, "sources", "file.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		n.T.Fatal(err)
	}
	state := map[string]any{}
	if err := json.Unmarshal(raw, &state); err != nil {
		n.T.Fatal(err)
	}
	origins, _ := state["origins"].(map[string]any)
	objects, _ := origins[filepath.Join(n.Manifests, file)].([]any)
	if len(objects) == 0 {
		n.T.Fatalf("nothing is remembered of %s: %s", file, raw)
	}
	object, _ := objects[0].(map[string]any)
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		n.T.Fatalf("what is remembered of %s has no spec: %s", file, raw)
	}
	change(spec)
	if raw, err = json.Marshal(state); err != nil {
		n.T.Fatal(err)
	}
	n.ReplaceFile(path, raw)
}

func TestAnUpgradeLeavesPodsAlone(t *testing.T) {
	t.Parallel()
	// given pods that another version of berth took in: one with another default, one
	// that this one refuses, one that it can't read, and one that it can
	n := kit.NewNode(t)
	for _, name := range []string{"default", "refused", "unread", "good"} {
		n.Apply(name+".yaml", kit.NewPod(name, "sleep"))
	}
	n.Start()
	before := n.Instances(n.WaitRunning("default", "refused", "unread", "good"))
	uids := map[string]string{}
	for name, p := range n.Pods() {
		uids[name] = string(p.UID)
	}
	n.KillAgent()
	editRecord(n, "default.yaml", func(spec map[string]any) { spec["schedulerName"] = "another-default" })
	refused := kit.NewPod("refused", "sleep")
	refused.Spec.RestartPolicy = "Sometimes"
	n.Apply("refused.yaml", refused)
	editRecord(n, "refused.yaml", func(spec map[string]any) { spec["restartPolicy"] = "Sometimes" })
	n.ReplaceFile(filepath.Join(n.Manifests, "unread.yaml"), []byte(strings.Replace(string(kit.Manifest(t, kit.NewPod("unread", "sleep"))), "spec:\n", "spec:\n  engine: 8\n", 1)))
	editRecord(n, "unread.yaml", func(spec map[string]any) { spec["engine"] = 8 })

	// when this version is started, then they all go on, and it says what is wrong
	n.Start()
	n.Wait("the folder to be read", kit.StartTimeout, func() string { return kit.MissingUnless(len(n.Refusals()) >= 3) })
	n.Apply("tick.yaml", kit.NewPod("tick", "sleep"))
	n.WaitRunning("tick", "default", "good")
	n.MustKeepInstances(before)
	for name, p := range n.Pods() {
		if was := uids[name]; was != "" && was != string(p.UID) {
			t.Errorf("%s was %s and is %s", name, was, p.UID)
		}
	}
	if got := n.Berth("get", "pods"); !strings.Contains(got.Out, "ManifestUnreadable") || !strings.Contains(got.Stderr, "engine") || !strings.Contains(got.Stderr, "restartPolicy") {
		t.Errorf("got %s", got)
	}
	n.WaitEvent(n.Pod("unread"), "ManifestUnreadable")
	n.WaitEvent(n.Pod("refused"), "ManifestRefused")

	// and over another restart
	n.KillAgent()
	n.Start()
	n.WaitRunning("tick", "default", "good")
	n.MustKeepInstances(before)

	// when the manifest is mended, then the pod is replaced
	mended := kit.NewPod("unread", "sleep")
	mended.Labels = map[string]string{"mended": "yes"}
	n.Apply("unread.yaml", mended)
	n.WaitPod("unread", "is another one", kit.StartTimeout, func(p v1.Pod) string {
		return kit.MissingUnless(kit.IsRunning(p) && string(p.UID) != uids["unread"])
	})
	n.WaitSettled("default", "refused", "good", "tick", "unread")
}
