//go:build real

package cli

import (
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/test/real/kit"
)

// matches waits until the output of a command matches a pattern.
func matches(n *kit.Node, pattern string, args ...string) {
	n.T.Helper()
	want := regexp.MustCompile(pattern)
	n.Wait("berth "+strings.Join(args, " "), 30*time.Second, func() string {
		if got := n.Berth(args...); got.Code != 0 || !want.MatchString(got.Out) {
			return pattern + " in " + got.String()
		}
		return ""
	})
}

func TestAPodIsShown(t *testing.T) {
	t.Parallel()
	// given a watch
	n := kit.NewNode(t)
	n.Start()
	watch := exec.Command(n.Program, "get", "pods", "-w", "--root-dir", n.Root)
	seen := &kit.Buffer{}
	watch.Stdout, watch.Stderr = seen, seen
	if err := n.Inside(watch.Start); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- watch.Wait() }()
	t.Cleanup(func() { _ = watch.Process.Kill() })

	// when a pod comes that is probed
	p := kit.NewPod("web", "moody", ":8080")
	p.Spec.Containers[0].ReadinessProbe = kit.ProbeEachSecond(kit.HTTPGet(8080))
	n.Apply("web.yaml", p)
	n.WaitRunning("web")

	// then all that is known of it is shown
	ip := n.Pod("web").Status.PodIP
	matches(n, `^`+regexp.QuoteMeta(ip)+` Running$`, "get", "pods", "web", "-o", "jsonpath={.status.podIP} {.status.phase}")
	matches(n, `(?m)^Probes:\n +Container +Kind +Last .*\n +app +Readiness +successful +[1-9]`, "describe", "pod", "web")
	matches(n, `(?m)^NAME +CPU\(cores\) +MEMORY\(bytes\)\nweb-node +\d+m +\d+Mi\n$`, "top", "pods")
	matches(n, `(?m)^POD +NAME +CPU.*\nweb-node +app +\d+m `, "top", "pods", "web", "--containers")
	matches(n, `(?m)^node +\d+m +\d+% +\d+Mi +\d+%\n$`, "top", "node")
	for _, phase := range []string{"sandbox", "create", "start", "ready"} {
		matches(n, `(?im)^.*`+phase+`.* [0-9.]+m?s`, "waterfall", "web")
	}
	if got, err := n.AgentPage("/healthz?verbose"); err != nil || !strings.Contains(string(got), "[+]syncloop ok") {
		t.Errorf("health: %s, %v", got, err)
	}

	// and the watch has shown its whole life, until it is interrupted
	n.RemoveManifest("web.yaml")
	n.WaitGone("web")
	n.Wait("the watch to tell", 10*time.Second, func() string {
		text := seen.String()
		if !regexp.MustCompile(`(?s)web-node +0/1 .*web-node +1/1 +Running .*web-node +\d/1 +Terminating`).MatchString(text) {
			return "a life in " + text
		}
		return ""
	})
	if err := watch.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the watch ends with %v: %s", err, seen)
	}
}

// followed is a running `berth logs -f`.
type followed struct {
	n     *kit.Node
	what  string
	text  *kit.Buffer
	ended chan error
}

func followLog(n *kit.Node, args ...string) followed {
	n.T.Helper()
	f := followed{n, "berth logs -f " + strings.Join(args, " "), &kit.Buffer{}, make(chan error, 1)}
	cmd := exec.Command(n.Program, append([]string{"--root-dir", n.Root, "logs", "-f"}, args...)...)
	cmd.Stdout, cmd.Stderr = f.text, f.text
	if err := n.Inside(cmd.Start); err != nil {
		n.T.Fatal(err)
	}
	n.T.Cleanup(func() { _ = cmd.Process.Kill() })
	go func() { f.ended <- cmd.Wait() }()
	return f
}

// endsWith waits for the end of the log, and checks its last line.
func (f followed) endsWith(word string) {
	f.n.T.Helper()
	select {
	case err := <-f.ended:
		if lines := strings.Split(strings.TrimSpace(f.text.String()), "\n"); err != nil || !strings.Contains(lines[len(lines)-1], word+" ") {
			f.n.T.Errorf("%s: got %v, %q, want %q at the end", f.what, err, f.text, word)
		}
	case <-time.After(kit.StartTimeout):
		f.n.T.Errorf("%s: it goes on: %q", f.what, f.text)
	}
}

func TestLogsOfAllKindsOfContainersAreFollowedToTheirEnd(t *testing.T) {
	t.Parallel()
	// given a pod with an init container that takes its time, and a sidecar
	n := kit.NewNode(t)
	p := kit.NewPod("web", "activity", "app", "0s")
	side := kit.NewContainer("side", "activity", "side", "0s")
	side.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	p.Spec.InitContainers = []v1.Container{side, kit.NewContainer("first", "activity", "first", "0s", "4s")}
	n.Apply("web.yaml", p)
	n.Start()
	n.WaitPod("web", "has an init container", kit.StartTimeout, func(p v1.Pod) string {
		for _, s := range p.Status.InitContainerStatuses {
			if s.Name == "first" && s.State.Running != nil {
				return ""
			}
		}
		return "first"
	})
	// when it is followed, as users and as kubectl do it, then to its end
	first := followLog(n, "web", "-c", "first")
	if got, err := n.AgentPage("/containerLogs/default/web-node/first?follow=true"); err != nil || !strings.Contains(string(got), "first end ") {
		t.Errorf("got %q, %v", got, err)
	}
	first.endsWith("first end")
	// and likewise the others, and one that was added to look into the pod
	n.WaitRunning("web")
	n.ExpectBerth("", []string{"debug", "web", "--image", kit.WorkloadImage, "-c", "look", "--", "/workload", "activity", "look", "0s", "3s"}, 0, "container look starts in pod web; see 'berth logs web -c look'\n", "")
	n.WaitPod("web", "has the container", kit.StartTimeout, func(p v1.Pod) string {
		for _, s := range p.Status.EphemeralContainerStatuses {
			if s.State.Running != nil {
				return ""
			}
		}
		return "look"
	})
	followLog(n, "web", "-c", "look").endsWith("look end")
	app, sidecar := followLog(n, "web"), followLog(n, "web", "-c", "side")
	for _, f := range []followed{app, sidecar} {
		n.Wait(f.what, kit.StartTimeout, func() string {
			if !strings.Contains(f.text.String(), "start ") {
				return "a first line"
			}
			return ""
		})
	}
	n.RemoveManifest("web.yaml")
	app.endsWith("app end")
	sidecar.endsWith("side end")
}
