//go:build real && machine

package pods

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
	"berth/test/real/kit"
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
	n := kit.NewNode(t)
	shared := filepath.Join(n.Dir, "shared")
	mustMake(n, shared, "mine", "others")
	n.ApplyObjects("settings.yaml", kit.NewConfigMap("settings", "red"))
	n.Apply("plain.yaml", kit.ReadablePod("plain"))
	n.Apply("labelled.yaml", labelled(shared))
	n.Start()

	// then pods run without, also the one that asks for a label
	plain := n.WaitRunning("plain", "labelled")["plain"]
	if f := finding(n, "security modules"); f.State != doctor.Warn || !strings.Contains(f.Found, "does not know the label system_u:system_r:container_t:s0") {
		t.Errorf("the doctor finds %+v", f)
	}

	// when the policy knows some, and the runtime was started before, then pods still run without
	nameLabels(t)
	n.Stop()
	n.Start()
	other := kit.ReadablePod("other")
	other.Spec.Containers[0].SecurityContext = &v1.SecurityContext{SELinuxOptions: &v1.SELinuxOptions{Type: anotherType}}
	n.Apply("other.yaml", other)
	unlabelled := n.WaitRunning("other")["other"]
	if got := processLabelOf(n, unlabelled, "app"); strings.Contains(got, anotherType) {
		t.Errorf("other runs as %s, and its runtime labels nothing", got)
	}
	if f := finding(n, "security modules"); f.State != doctor.OK || f.Found != "SELinux is permissive" {
		t.Errorf("the doctor finds %+v", f)
	}

	// when there is a runtime that labels, then each new process has the label that was asked for, or one of
	// its own, and those that ran are left alone
	n.RemoveManifest("labelled.yaml")
	n.RemoveManifest("other.yaml")
	n.WaitGone("labelled", "other")
	n.Stop()
	kit.KillProcess(t, n.ContainerdPID())
	n.Start()
	n.Apply("labelled.yaml", labelled(shared))
	n.Apply("other.yaml", other)
	n.WaitRunning("labelled", "other")
	lost := kit.ReadablePod("lost")
	lost.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Type: "lost_t"}}
	n.Apply("more.yaml", kit.ReadablePod("usual"), lost)
	pods := n.WaitRunning("plain", "labelled", "other", "usual")
	if kit.AppStatus(pods["plain"]).ContainerID != kit.AppStatus(plain).ContainerID {
		t.Errorf("plain is %s, before it was %s", kit.Summary(pods["plain"]), kit.Summary(plain))
	}
	const ofItsOwn = `s0:c\d+,c\d+`
	for _, c := range []struct{ pod, container, want string }{
		{"labelled", "app", processType + ":s0:c1,c2"},
		{"labelled", "beside", anotherType + ":s0:c3,c4"},
		{"other", "app", anotherType + ":" + ofItsOwn},
		{"usual", "app", processType + ":" + ofItsOwn},
	} {
		if got := processLabelOf(n, pods[c.pod], c.container); !regexp.MustCompile("^" + processLabel + c.want + "$").MatchString(got) {
			t.Errorf("%s of %s runs as %s, want %s", c.container, c.pod, got, c.want)
		}
	}
	// and a label that the policy does not know is refused
	waitMessage(n, "lost", "the SELinux policy does not know the label "+processLabel+"lost_t:s0")

	// and what was made for a pod has its label; what is the machine's has not
	scratch, settings := volumeOf(n, pods["labelled"], "kubernetes.io~empty-dir", "scratch"), volumeOf(n, pods["labelled"], "kubernetes.io~configmap", "etc-cfg")
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
		kit.MustRun(t, "chcon", fileLabel+fileType+":"+level, filepath.Join(shared, file))
	}
	kit.MustRun(t, "setenforce", "1")
	defer kit.MustRun(t, "setenforce", "0")
	for path, want := range map[string]string{"/shared/mine": "mine", "/etc/cfg/colour": "red"} {
		if got := n.ReadFile(pods["labelled"], path); got != want {
			t.Errorf("%s holds %q, want %q", path, got, want)
		}
	}
	n.Wait("another's file to be kept from it", kit.StartTimeout, func() string {
		_, err := n.Get(pods["labelled"].Status.PodIP+":7070", "/file?path=/shared/others")
		return kit.MissingUnless(err != nil && strings.Contains(err.Error(), "permission denied"))
	})
}

// labelled is a pod with a level of its own, and volumes of many kinds.
func labelled(shared string) *v1.Pod {
	p := kit.WithConfigMap(kit.ReadablePod("labelled"), "settings")
	p.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Level: "s0:c1,c2"}}
	kit.AddVolume(p, "/scratch", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
	kit.AddVolume(p, "/shared", hostPath(shared, v1.HostPathDirectory))
	answerWhileEnforced(p)
	beside := kit.NewContainer("beside", "sleep")
	beside.SecurityContext = &v1.SecurityContext{SELinuxOptions: &v1.SELinuxOptions{Type: anotherType, Level: "s0:c3,c4"}}
	p.Spec.Containers = append(p.Spec.Containers, beside)
	return p
}

// answerWhileEnforced lets a kit.ReadablePod answer while the policy is enforced: Linux 6.1 labels the sockets of multipath TCP,
// which Go listens on, as its own.
func answerWhileEnforced(p *v1.Pod) {
	p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, v1.EnvVar{Name: "GODEBUG", Value: "multipathtcp=0"})
}

// nameLabels writes the file by which runtimes choose the SELinux labels of containers.
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

// processLabelOf is the label of the process of a container.
func processLabelOf(n *kit.Node, p v1.Pod, container string) string {
	n.T.Helper()
	_, pid := n.Container(kit.ContainerIDs(p)[container])
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/attr/current", pid))
	if err != nil {
		n.T.Fatalf("read the label of %s: %v", container, err)
	}
	return strings.TrimRight(string(text), "\x00")
}

// finding returns the finding of one check of the doctor.
func finding(n *kit.Node, check string) doctor.Finding {
	n.T.Helper()
	var all []doctor.Finding
	if got := n.Berth("doctor", "-o", "json"); json.Unmarshal([]byte(got.Out), &all) != nil {
		n.T.Fatal(got)
	}
	for _, f := range all {
		if f.Check == check {
			return f
		}
	}
	n.T.Fatalf("the doctor did not look at %s: %v", check, all)
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
