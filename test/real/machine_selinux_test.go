//go:build real && machine

package real

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"berth/internal/host/doctor"
)

// These are of Debian's policy, which has nothing that is meant for containers.
const (
	processType  = "svirt_t"
	anotherType  = "svirt_prot_exec_t"
	fileType     = "svirt_image_t"
	processLabel = "system_u:system_r:"
	fileLabel    = "system_u:object_r:"
)

// It runs alone: for a moment the machine enforces its policy.
func TestSELinux(t *testing.T) {
	// given a machine with SELinux, whose policy knows no labels for containers
	n := newNode(t)
	shared := filepath.Join(n.dir, "shared")
	n.mustMake(shared, "mine", "others")
	n.save("settings.yaml", newMap("settings", "red"))
	n.apply("plain.yaml", open("plain"))
	n.apply("labelled.yaml", labelled(shared))
	n.start()

	// then pods run without, and who asks for one is refused
	plain := n.waitRunning("plain")["plain"]
	n.waitUnlabelled("labelled")
	if f := n.finding("security modules"); f.State != doctor.Warn || !strings.Contains(f.Found, "does not know the label system_u:system_r:container_t:s0") {
		t.Errorf("the doctor finds %+v", f)
	}

	// when it knows some, then those who ask wait for a runtime that labels, too
	nameLabels(t)
	n.stop()
	n.start()
	other := open("other")
	other.Spec.Containers[0].SecurityContext = &v1.SecurityContext{SELinuxOptions: &v1.SELinuxOptions{Type: anotherType}}
	n.apply("other.yaml", other)
	n.waitUnlabelled("other")
	if f := n.finding("security modules"); f.State != doctor.OK || f.Found != "SELinux is permissive" {
		t.Errorf("the doctor finds %+v", f)
	}

	// when there is one, then each process has the label that was asked for, or one of
	// its own, and those that ran are left alone
	n.stop()
	kill(t, n.containerdPID())
	n.start()
	n.waitRunning("labelled", "other")
	lost := open("lost")
	lost.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Type: "lost_t"}}
	n.apply("more.yaml", open("usual"), lost)
	pods := n.waitRunning("plain", "labelled", "other", "usual")
	if app(pods["plain"]).ContainerID != app(plain).ContainerID {
		t.Errorf("plain is %s, before it was %s", summary(pods["plain"]), summary(plain))
	}
	const ofItsOwn = `s0:c\d+,c\d+`
	for _, c := range []struct{ pod, container, want string }{
		{"labelled", "app", processType + ":s0:c1,c2"},
		{"labelled", "beside", anotherType + ":s0:c3,c4"},
		{"other", "app", anotherType + ":" + ofItsOwn},
		{"usual", "app", processType + ":" + ofItsOwn},
	} {
		_, pid := n.container(ids(pods[c.pod])[c.container])
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/attr/current", pid))
		if got := strings.TrimRight(string(text), "\x00"); err != nil || !regexp.MustCompile("^"+processLabel+c.want+"$").MatchString(got) {
			t.Errorf("%s of %s runs as %s, want %s: %v", c.container, c.pod, got, c.want, err)
		}
	}
	// and who asks for one that the policy does not know is told so
	n.waitMessage("lost", "the SELinux policy does not know the label "+processLabel+"lost_t:s0")

	// and what was made for a pod has its label; what is the machine's has not
	scratch, settings := n.volumeOf(pods["labelled"], "kubernetes.io~empty-dir", "scratch"), n.volumeOf(pods["labelled"], "kubernetes.io~configmap", "etc-cfg")
	for _, path := range []string{scratch, settings, filepath.Join(settings, "..data", "colour")} {
		if got, want := labelOf(t, path), fileLabel+fileType+":s0:c1,c2"; got != want {
			t.Errorf("%s has the label %s, want %s", path, got, want)
		}
	}
	for _, path := range []string{shared, filepath.Join(shared, "mine")} {
		if got := labelOf(t, path); strings.Contains(got, fileType) {
			t.Errorf("%s has the label %s", path, got)
		}
	}

	// when the policy is enforced, then a pod finds what has its label, and nothing else
	for file, level := range map[string]string{"": "s0", "mine": "s0:c1,c2", "others": "s0:c7,c8"} {
		mustRun(t, "chcon", fileLabel+fileType+":"+level, filepath.Join(shared, file))
	}
	mustRun(t, "setenforce", "1")
	defer mustRun(t, "setenforce", "0")
	for path, want := range map[string]string{"/shared/mine": "mine", "/etc/cfg/colour": "red"} {
		if got := n.contentOf(pods["labelled"], path); got != want {
			t.Errorf("%s holds %q, want %q", path, got, want)
		}
	}
	n.wait("another's file to be kept from it", startLimit, func() string {
		_, err := n.get(pods["labelled"].Status.PodIP+":7070", "/file?path=/shared/others")
		return boolText(err != nil && strings.Contains(err.Error(), "permission denied"))
	})
}

// labelled is a pod with a level of its own, and volumes of many kinds.
func labelled(shared string) *v1.Pod {
	p := readsMap(open("labelled"), "settings")
	p.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Level: "s0:c1,c2"}}
	mount(p, "/scratch", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
	mount(p, "/shared", hostPath(shared, v1.HostPathDirectory))
	// Linux 6.1 labels the sockets of multipath TCP, which Go listens on, as its own.
	p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, v1.EnvVar{Name: "GODEBUG", Value: "multipathtcp=0"})
	beside := newContainer("beside", "sleep")
	beside.SecurityContext = &v1.SecurityContext{SELinuxOptions: &v1.SELinuxOptions{Type: anotherType, Level: "s0:c3,c4"}}
	p.Spec.Containers = append(p.Spec.Containers, beside)
	return p
}

// nameLabels tells runtimes what labels containers have on this machine.
func nameLabels(t *testing.T) {
	t.Helper()
	const path = "/usr/share/containers/selinux/contexts"
	text := fmt.Sprintf("process = %q\nfile = %q\n", processLabel+processType+":s0", fileLabel+fileType+":s0")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	})
}

// waitUnlabelled waits until a pod is refused, because nobody would label it.
func (n *node) waitUnlabelled(name string) {
	n.t.Helper()
	n.waitPod(name, "to be refused", startLimit, func(p v1.Pod) string {
		return boolText(p.Status.Phase == v1.PodFailed && p.Status.Reason == "SELinux")
	})
}

// finding is what the doctor says to one question.
func (n *node) finding(check string) doctor.Finding {
	n.t.Helper()
	var all []doctor.Finding
	if got := n.berth("doctor", "-o", "json"); json.Unmarshal([]byte(got.out), &all) != nil {
		n.t.Fatal(got)
	}
	for _, f := range all {
		if f.Check == check {
			return f
		}
	}
	n.t.Fatalf("the doctor did not look at %s: %v", check, all)
	return doctor.Finding{}
}

// labelOf is the label of a file.
func labelOf(t *testing.T, path string) string {
	t.Helper()
	text := make([]byte, 256)
	size, err := unix.Getxattr(path, "security.selinux", text)
	if err != nil {
		t.Fatalf("read the label of %s: %v", path, err)
	}
	return strings.TrimRight(string(text[:size]), "\x00")
}
