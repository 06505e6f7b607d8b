package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/cli/clitest"
	"berth/internal/config"
)

func TestOnceRefuses(t *testing.T) {
	dir := clitest.Folder(t, map[string]string{
		"always.yaml": strings.Replace(clitest.GoodPod, "Never", "Always", 1),
		"two.yaml":    clitest.GoodPod + "---\n" + strings.Replace(clitest.GoodPod, "name: web", "name: other", 1),
		"bad.yaml":    clitest.GoodPod + "nonsense: 1\n",
		"good.yaml":   clitest.GoodPod,
	})
	cases := []struct {
		args string
		code int
		want string
	}{
		{"run -f x.yaml", 1, "error: -f, --images and --timeout go with --once"},
		{"run --once", 1, "error: say what to run with -f"},
		{"run --once -f " + dir + "/good.yaml --timeout=-1s", 1, "error: --timeout is -1s"},
		{"run --once -f " + dir + "/good.yaml --kubeconfig x", 1, "error: --once and --kubeconfig exclude each other"},
		{"run --once -f " + dir + "/good.yaml --container-runtime-endpoint unix:///x", 1, "error: --once and --container-runtime-endpoint exclude each other"},
		{"run --once -f /nonexistent", exitCannotRun, "error: look for manifests"},
		{"run --once -f " + dir, exitCannotRun, "error: " + dir + " is a folder"},
		{"run --once -f " + dir + "/always.yaml", exitCannotRun, "would never end, since it is restarted always: set spec.restartPolicy to Never or OnFailure"},
		{"run --once -f " + dir + "/two.yaml", exitCannotRun, "error: there are 2 pods in "},
		{"run --once -f " + dir + "/bad.yaml", exitCannotRun, dir + "/bad.yaml:7: error: "},
	}
	for _, c := range cases {
		if got := clitest.Run(t, root, "", strings.Fields(c.args)...); got.Code != c.code || !strings.Contains(got.Stderr, c.want) || got.Out != "" {
			t.Errorf("berth %s: got %+v, want code %d, %q", c.args, got, c.code, c.want)
		}
	}
}

func TestOnceCode(t *testing.T) {
	pod := func(phase v1.PodPhase, codes ...int32) *v1.Pod {
		p := clitest.RunningPod("x", "web", "a", "b")
		p.Status.Phase = phase
		for i, code := range codes {
			p.Status.ContainerStatuses[i].State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}
		}
		return p
	}
	backwards := pod(v1.PodFailed, 3, 7)
	backwards.Status.ContainerStatuses[0], backwards.Status.ContainerStatuses[1] = backwards.Status.ContainerStatuses[1], backwards.Status.ContainerStatuses[0]
	initFailed := pod(v1.PodFailed, 0, 0)
	initFailed.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "prepare", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 9}}}}
	turnedAway := pod(v1.PodFailed, 137)
	turnedAway.Status.Reason, turnedAway.Status.Message = "NodePorts", "the port is taken"
	for _, c := range []struct {
		name string
		pod  *v1.Pod
		code int
		err  string
	}{
		{"well", pod(v1.PodSucceeded, 0, 0), 0, ""},
		{"the second failed", pod(v1.PodFailed, 0, 3), 3, ""},
		{"the order is that of the spec", backwards, 3, ""},
		{"an init container failed", initFailed, 9, ""},
		{"it was turned away", turnedAway, exitCannotRun, "pod x/web-node-1 failed: NodePorts: the port is taken"},
	} {
		code, err := podExitCode(c.pod)
		if code != c.code || fmt.Sprint(err) != map[bool]string{true: "<nil>", false: c.err}[c.err == ""] {
			t.Errorf("%s: got %d, %v", c.name, code, err)
		}
	}
}

func TestOnceIsSetApart(t *testing.T) {
	of := func(root string) *config.Config {
		c := &config.Config{
			RootDir: root, CgroupRoot: "/berth", PodCIDR: netip.MustParsePrefix("10.88.0.0/16"), PodLogsDir: "/var/log/pods", LogLinksDir: "/var/log/containers",
		}
		c.API.HealthzPort = 10248
		return c
	}
	// given the configuration file of another agent
	a, b := of(t.TempDir()), of(t.TempDir())
	for _, c := range []*config.Config{a, b} {
		isolate(c, c == a)
		named, err := c.RootRequest().Named(nil)
		if err != nil {
			t.Fatal(err)
		}
		c.SetRootNames(named)
	}
	if a.Bridge == b.Bridge || a.CgroupRoot == b.CgroupRoot || a.CgroupRoot == "/berth" || a.PodLogsDir == b.PodLogsDir || len(a.RootRequest().Ports) > 0 {
		t.Errorf("got %+v, %+v", a, b)
	}
	if a.PodCIDR.String() != "10.88.0.0/16" || b.PodCIDR.IsValid() {
		t.Errorf("got %s, which was given, and %s, which is to be chosen", a.PodCIDR, b.PodCIDR)
	}
}

func TestOnceLeavesPodsOfOthersAlone(t *testing.T) {
	root := t.TempDir()
	c := &config.Config{RootDir: root, ManifestDir: filepath.Join(root, "once")}
	file := []byte(clitest.GoodPod)
	once := onceFlags{images: t.TempDir()}
	if err := once.prepare(c, file); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(onceManifest(c)); err != nil || string(text) != clitest.GoodPod {
		t.Errorf("got %q (%v)", text, err)
	}
	if to, err := os.Readlink(filepath.Join(root, "images")); err != nil || to != once.images {
		t.Errorf("got %q (%v)", to, err)
	}
	// then the link and the manifest of an earlier run do not prevent the next
	once.images = t.TempDir()
	if err := once.prepare(c, file); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(filepath.Join(root, "images")); err != nil || to != once.images {
		t.Errorf("got %q (%v)", to, err)
	}
	if err := once.unlinkImages(root); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(root, "images")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	// and images that are no link of a run are kept
	if err := os.MkdirAll(filepath.Join(root, "images", "theirs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := once.prepare(c, file); err == nil || !strings.Contains(err.Error(), "and leave out --images") {
		t.Errorf("got %v", err)
	}
	if err := os.MkdirAll(filepath.Join(root, "pods", "uid"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := (&onceFlags{}).prepare(c, file); err == nil || !strings.Contains(err.Error(), "pods of another run") {
		t.Errorf("got %v", err)
	}
}

func TestEachLifeOfAContainerIsPrinted(t *testing.T) {
	ended := func(id string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: id}}
	}
	running, waits := v1.ContainerState{Running: &v1.ContainerStateRunning{}}, v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}
	for _, c := range []struct {
		name   string
		status v1.ContainerStatus
		want   string
	}{
		{"not yet", v1.ContainerStatus{State: waits}, "[]"},
		{"the first", v1.ContainerStatus{State: running, ContainerID: "a"}, "[a]"},
		{"it has ended", v1.ContainerStatus{State: ended("a"), ContainerID: "a"}, "[a]"},
		{"it waits for the second", v1.ContainerStatus{State: waits, ContainerID: "a", LastTerminationState: ended("a")}, "[a]"},
		{"the second, and nobody saw the first", v1.ContainerStatus{State: running, ContainerID: "b", LastTerminationState: ended("a")}, "[a b]"},
	} {
		if got := fmt.Sprint(containerIDs(c.status)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}
