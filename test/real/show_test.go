//go:build real

package real

import (
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// matches waits until a command prints what it should.
func (n *node) matches(pattern string, args ...string) {
	n.t.Helper()
	want := regexp.MustCompile(pattern)
	n.wait("berth "+strings.Join(args, " "), 30*time.Second, func() string {
		if got := n.berth(args...); got.code != 0 || !want.MatchString(got.out) {
			return pattern + " in " + got.String()
		}
		return ""
	})
}

func TestAPodIsShown(t *testing.T) {
	t.Parallel()
	// given somebody who watches
	n := newNode(t)
	n.start()
	watch := exec.Command(n.program, "get", "pods", "-w", "--root-dir", n.root)
	seen := &buffer{}
	watch.Stdout, watch.Stderr = seen, seen
	if err := n.Inside(watch.Start); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- watch.Wait() }()
	t.Cleanup(func() { _ = watch.Process.Kill() })

	// when a pod comes that is probed
	p := newPod("web", "moody", ":8080")
	p.Spec.Containers[0].ReadinessProbe = every(httpGet(8080))
	n.apply("web.yaml", p)
	n.waitRunning("web")

	// then all that is known of it is shown
	ip := n.pod("web").Status.PodIP
	n.matches(`^`+regexp.QuoteMeta(ip)+` Running$`, "get", "pods", "web", "-o", "jsonpath={.status.podIP} {.status.phase}")
	n.matches(`(?m)^Probes:\n +Container +Kind +Last .*\n +app +Readiness +successful +[1-9]`, "describe", "pod", "web")
	n.matches(`(?m)^NAME +CPU\(cores\) +MEMORY\(bytes\)\nweb-node +\d+m +\d+Mi\n$`, "top", "pods")
	n.matches(`(?m)^POD +NAME +CPU.*\nweb-node +app +\d+m `, "top", "pods", "web", "--containers")
	n.matches(`(?m)^node +\d+m +\d+% +\d+Mi +\d+%\n$`, "top", "node")
	for _, phase := range []string{"sandbox", "create", "start", "ready"} {
		n.matches(`(?im)^.*`+phase+`.* [0-9.]+m?s`, "waterfall", "web")
	}
	if got, err := n.page("/healthz?verbose"); err != nil || !strings.Contains(string(got), "[+]syncloop ok") {
		t.Errorf("health: %s, %v", got, err)
	}

	// and the watch has told of its whole life, until it is interrupted
	n.remove("web.yaml")
	n.waitGone("web")
	n.wait("the watch to tell", 10*time.Second, func() string {
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

// followed is a log that somebody follows.
type followed struct {
	n     *node
	what  string
	text  *buffer
	ended chan error
}

func (n *node) followLog(args ...string) followed {
	n.t.Helper()
	f := followed{n, "berth logs -f " + strings.Join(args, " "), &buffer{}, make(chan error, 1)}
	cmd := exec.Command(n.program, append([]string{"--root-dir", n.root, "logs", "-f"}, args...)...)
	cmd.Stdout, cmd.Stderr = f.text, f.text
	if err := n.Inside(cmd.Start); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = cmd.Process.Kill() })
	go func() { f.ended <- cmd.Wait() }()
	return f
}

// endsWith waits for the end of the log, by itself, and looks at its last line.
func (f followed) endsWith(word string) {
	f.n.t.Helper()
	select {
	case err := <-f.ended:
		if lines := strings.Split(strings.TrimSpace(f.text.String()), "\n"); err != nil || !strings.Contains(lines[len(lines)-1], word+" ") {
			f.n.t.Errorf("%s: got %v, %q, want %q at the end", f.what, err, f.text, word)
		}
	case <-time.After(startLimit):
		f.n.t.Errorf("%s: it goes on: %q", f.what, f.text)
	}
}

func TestLogsOfAllKindsOfContainersAreFollowedToTheirEnd(t *testing.T) {
	t.Parallel()
	// given a pod with an init container that takes its time, and a sidecar
	n := newNode(t)
	p := newPod("web", "diary", "app", "0s")
	side := newContainer("side", "diary", "side", "0s")
	side.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	p.Spec.InitContainers = []v1.Container{side, newContainer("first", "diary", "first", "0s", "4s")}
	n.apply("web.yaml", p)
	n.start()
	n.waitPod("web", "has an init container", startLimit, func(p v1.Pod) string {
		for _, s := range p.Status.InitContainerStatuses {
			if s.Name == "first" && s.State.Running != nil {
				return ""
			}
		}
		return "first"
	})
	// when it is followed, as users and as kubectl do it, then to its end
	first := n.followLog("web", "-c", "first")
	if got, err := n.page("/containerLogs/default/web-node/first?follow=true"); err != nil || !strings.Contains(string(got), "first end ") {
		t.Errorf("got %q, %v", got, err)
	}
	first.endsWith("first end")
	// and likewise the others, and one that was added to look into the pod
	n.waitRunning("web")
	n.wantTyped("", []string{"debug", "web", "--image", workloadImage, "-c", "look", "--", "/workload", "diary", "look", "0s", "3s"}, 0, "container look starts in pod web; see 'berth logs web -c look'\n", "")
	n.waitPod("web", "has the container", startLimit, func(p v1.Pod) string {
		for _, s := range p.Status.EphemeralContainerStatuses {
			if s.State.Running != nil {
				return ""
			}
		}
		return "look"
	})
	n.followLog("web", "-c", "look").endsWith("look end")
	app, sidecar := n.followLog("web"), n.followLog("web", "-c", "side")
	for _, f := range []followed{app, sidecar} {
		n.wait(f.what, startLimit, func() string {
			if !strings.Contains(f.text.String(), "start ") {
				return "a first line"
			}
			return ""
		})
	}
	n.remove("web.yaml")
	app.endsWith("app end")
	sidecar.endsWith("side end")
}
