//go:build real

package api

import (
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth/test/cluster/kit"
)

func TestKubectlShowsANodeAsItShowsAnyOther(t *testing.T) {
	t.Parallel()
	l, admin := kit.SharedNamespace(t, "look-at-nodes")
	pods := kit.PodsIn(t, admin, "look-at-nodes")
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("guest", "sleep"), "one"))
	pods.Await("guest", "ready", kit.IsReady)

	row := kit.TableRow(t, kit.Kubectl(t, l, "get", "nodes", "-o", "wide"), "one")
	for column, want := range map[string]string{
		"STATUS": `Ready`, "ROLES": `<none>`, "VERSION": `v1\.36\.\d+\S*`, "INTERNAL-IP": regexp.QuoteMeta(l.Nodes()[0].Address),
		"EXTERNAL-IP": `<none>`, "OS-IMAGE": `\w.*`, "KERNEL-VERSION": `\d+\..*`, "CONTAINER-RUNTIME": `containerd://\S+`,
	} {
		kit.MustMatch(t, column, row[column], "^"+want+"$")
	}

	text := kit.Kubectl(t, l, "describe", "node", "one")
	for _, want := range []string{
		`(?m)^Labels: +.*(\n +.*)*kubernetes.io/hostname=one$`,
		`(?m)^ +kubernetes.io/os=linux$`,
		`(?m)^Taints: +<none>$`,
		`(?m)^Unschedulable: +false$`,
		`(?m)^ +HolderIdentity: +one$`,
		`(?m)^ +MemoryPressure +False .* KubeletHasSufficientMemory `,
		`(?m)^ +DiskPressure +False .* KubeletHasNoDiskPressure `,
		`(?m)^ +PIDPressure +False .* KubeletHasSufficientPID `,
		`(?m)^ +Ready +True .* KubeletReady `,
		`(?m)^ +InternalIP: +` + regexp.QuoteMeta(l.Nodes()[0].Address) + `$`,
		`(?m)^ +Hostname: +one$`,
		`(?s)\nCapacity:\n +cpu: +\d+\n +ephemeral-storage: +\d+Ki\n.* +memory: +\d+Ki\n +pods: +110\nAllocatable:\n`,
		`(?m)^ +Kubelet Version: +v1\.36\.`,
		`(?m)^ +Container Runtime Version: +containerd://`,
		`(?m)^ +look-at-nodes +guest +0 \(0%\)`,
	} {
		kit.MustMatch(t, "kubectl describe node", text, want)
	}
	pods.MustRemove("guest")
}

func TestKubectlShowsPodsAsItShowsAnyOther(t *testing.T) {
	t.Parallel()
	const space = "look-at-pods"
	l, admin := kit.SharedNamespace(t, space)
	pods := kit.PodsIn(t, admin, space)
	missing := kit.WorkloadPod("missing", "sleep")
	missing.Spec.Containers[0].Image = "localhost/missing:1"
	pods.MustCreate(kit.WorkloadPod("web", "serve", ":8080"), kit.WithoutRestart(kit.WorkloadPod("done", "exit", "0")), kit.WithoutRestart(kit.WorkloadPod("failed", "exit", "3")),
		kit.WorkloadPod("crashing", "exit", "7"), missing)

	kit.Kubectl(t, l, "-n", space, "wait", "pod/web", "--for=condition=Ready", "--timeout=60s")
	pods.Await("done", "done", kit.HasPhase(corev1.PodSucceeded))
	pods.Await("failed", "failed", kit.HasPhase(corev1.PodFailed))
	for name, reason := range map[string]string{"crashing": "CrashLoopBackOff", "missing": "ImagePullBackOff"} {
		pods.Await(name, "waiting", func(p *corev1.Pod) bool {
			return p != nil && len(p.Status.ContainerStatuses) == 1 &&
				p.Status.ContainerStatuses[0].State.Waiting != nil && p.Status.ContainerStatuses[0].State.Waiting.Reason == reason
		})
	}

	table := kit.Kubectl(t, l, "-n", space, "get", "pods", "-o", "wide")
	for name, want := range map[string][3]string{
		"web":      {"1/1", `^Running$`, `^0$`},
		"done":     {"0/1", `^Completed$`, `^0$`},
		"failed":   {"0/1", `^Error$`, `^0$`},
		"crashing": {"0/1", `^(CrashLoopBackOff|Error)$`, `^[1-9]\d* \(\d+s ago\)$`},
		"missing":  {"0/1", `^(ImagePullBackOff|ErrImagePull)$`, `^0$`},
	} {
		row := kit.TableRow(t, table, name)
		kit.MustMatch(t, "READY of "+name, row["READY"], "^"+want[0]+"$")
		kit.MustMatch(t, "STATUS of "+name, row["STATUS"], want[1])
		kit.MustMatch(t, "RESTARTS of "+name, row["RESTARTS"], want[2])
		kit.MustMatch(t, "NODE of "+name, row["NODE"], `^(one|two)$`)
		kit.MustMatch(t, "IP of "+name, row["IP"], `^10\.202\.[12]\.\d+$`)
	}

	for name, wants := range map[string][]string{
		"web": {
			`(?m)^Node: +(one|two)/10\.99\.0\.1[12]$`, `(?m)^Status: +Running$`, `(?m)^IP: +10\.202\.`,
			`(?m)^ +Container ID: +containerd://[0-9a-f]{64}$`, `(?m)^ +Image: +localhost/workload:1$`, `(?m)^ +Image ID: +\S+`,
			`(?m)^ +State: +Running\n +Started: +\S`, `(?m)^ +Ready: +True$`, `(?m)^ +Restart Count: +0$`,
			`(?m)^ +PodReadyToStartContainers +True *$`, `(?m)^ +Initialized +True *$`, `(?m)^ +Ready +True *$`,
			`(?m)^ +ContainersReady +True *$`, `(?m)^ +PodScheduled +True *$`, `(?m)^QoS Class: +BestEffort$`,
		},
		"done":     {`(?m)^Status: +Succeeded$`, `(?m)^ +State: +Terminated\n +Reason: +Completed\n +Exit Code: +0\n +Started: +\S.*\n +Finished: +\S`},
		"failed":   {`(?m)^Status: +Failed$`, `(?m)^ +State: +Terminated\n +Reason: +Error\n +Exit Code: +3$`, `(?m)^ +Ready +False *$`},
		"crashing": {`(?m)^ +Last State: +Terminated\n +Reason: +Error\n +Exit Code: +7$`},
		"missing":  {`(?m)^Status: +Pending$`, `(?m)^ +State: +Waiting\n +Reason: +(ImagePullBackOff|ErrImagePull)$`},
	} {
		text := kit.Kubectl(t, l, "-n", space, "describe", "pod", name)
		for _, want := range wants {
			kit.MustMatch(t, "kubectl describe pod "+name, text, want)
		}
	}

	// kubectl waits until what it deletes is gone.
	kit.Kubectl(t, l, "-n", space, "delete", "pod", "--all", "--timeout=60s")
	kit.MustHavePods(t, admin, space, 0)
}
