package nodes

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/cli/clitest"
	"berth/internal/host/doctor"
)

func TestNodeTables(t *testing.T) {
	a := clitest.StartAgent(t, root, clitest.WithInventory)
	a.WantOutput(t, "get node", `
NAME     STATUS   ROLES   AGE    VERSION
node-1   Ready    edge    3h     v1.36.3
`)
	a.WantOutput(t, "get nodes -o wide", `
NAME     STATUS   ROLES   AGE    VERSION   INTERNAL-IP   OS-IMAGE   KERNEL-VERSION   CONTAINER-RUNTIME
node-1   Ready    edge    3h     v1.36.3   10.0.0.1      Debian     6.1              containerd://2
`)
	a.WantOutput(t, "get node -o name", "node/node-1\n")
	a.WantOutput(t, "get node -o jsonpath={.status.allocatable.memory}", "1Gi")
	a.WantOutput(t, "get node -o jsonpath=.kind", "Node")
	a.WantOutput(t, "get node -o jsonpath={.nope}", "")
	a.WantOutput(t, "top node", `
NAME     CPU(cores)   CPU(%)   MEMORY(bytes)   MEMORY(%)
node-1   500m         25%      256Mi           25%
`)
}

func TestDescribeNode(t *testing.T) {
	n := clitest.NewNode()
	n.CreationTimestamp = clitest.BeforeNoon(24 * time.Hour)
	web, ended := clitest.CrashingPod(), clitest.RunningPod("x", "done", "app")
	ended.Status.Phase = v1.PodSucceeded
	got := describeNode(n, []v1.Pod{*ended, *web}, clitest.Noon())
	for _, want := range []string{
		"Name:           node-1\n", "Roles:          edge\n", "Taints:         a=b:NoExecute\n",
		"  Ready   True     60m     KubeletReady   all is well\n",
		"  InternalIP:  10.0.0.1\n", "Allocatable:\n  cpu:     2\n  memory:  1Gi\n",
		"Pods:  (1 that have not ended)\n", "web-node-1   100m (5%)      500m (25%)   0 (0%)            64Mi (6%)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	a := clitest.StartAgent(t, root, clitest.WithInventory)
	if got := a.Berth(t, "describe", "node"); got.Code != 0 || !strings.HasPrefix(got.Out, "Name:") {
		t.Errorf("got %+v", got)
	}
}

func TestPrintFindings(t *testing.T) {
	var out strings.Builder
	err := printFindings(&out, []doctor.Finding{
		{Check: "root", State: doctor.OK, Found: "this is root"},
		{Check: "swap", State: doctor.Warn, Found: "there is some", Remedy: "swapoff -a"},
		{Check: "veth", State: doctor.Fail, Found: "missing", Remedy: "modprobe veth"},
	}, nil)
	want := `CHECK   STATUS   FOUND           REMEDY
root    ok       this is root    
swap    warn     there is some   swapoff -a
veth    fail     missing         modprobe veth

1 ok, 1 warning, 1 to be mended: no pods can run here before what fails is mended
`
	if err != nil || out.String() != want {
		t.Errorf("got (%v)\n%swant\n%s", err, out.String(), want)
	}
}

func TestDoctor(t *testing.T) {
	got := clitest.Run(t, root, "", "doctor", "-o", "json", "--root-dir", clitest.NewRootDir(t))
	var findings []doctor.Finding
	if err := json.Unmarshal([]byte(got.Out), &findings); err != nil {
		t.Fatal(err)
	}
	failed := false
	for _, f := range findings {
		failed = failed || f.State == doctor.Fail
	}
	// The programs are not beside a test
	if !failed || got.Code != 1 || len(findings) < 20 {
		t.Errorf("got code %d, %+v", got.Code, findings)
	}
	if got := clitest.Run(t, root, "", "doctor", "now"); got.Code != 1 || !strings.Contains(got.Stderr, "one word too many") {
		t.Errorf("got %+v", got)
	}
}
