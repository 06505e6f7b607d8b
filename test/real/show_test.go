//go:build real

package real

import (
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
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
	if err := n.inside(watch.Start); err != nil {
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
