//go:build real

package cluster

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestKubectlShowsANodeAsItShowsAnyOther(t *testing.T) {
	t.Parallel()
	l, admin := sharedNamespace(t, "look-at-nodes")
	pods := podsIn(t, admin, "look-at-nodes")
	pods.create(onNode(workloadPod("guest", "sleep"), "one"))
	pods.await("guest", "ready", isReady)

	row := rowOf(t, kubectl(t, l, "get", "nodes", "-o", "wide"), "one")
	for column, want := range map[string]string{
		"STATUS": `Ready`, "ROLES": `<none>`, "VERSION": `v1\.36\.\d+\S*`, "INTERNAL-IP": regexp.QuoteMeta(l.Nodes()[0].Address),
		"EXTERNAL-IP": `<none>`, "OS-IMAGE": `\w.*`, "KERNEL-VERSION": `\d+\..*`, "CONTAINER-RUNTIME": `containerd://\S+`,
	} {
		mustMatch(t, column, row[column], "^"+want+"$")
	}

	text := kubectl(t, l, "describe", "node", "one")
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
		mustMatch(t, "kubectl describe node", text, want)
	}
	pods.remove("guest")
}

func TestKubectlShowsPodsAsItShowsAnyOther(t *testing.T) {
	t.Parallel()
	const space = "look-at-pods"
	l, admin := sharedNamespace(t, space)
	pods := podsIn(t, admin, space)
	missing := workloadPod("missing", "sleep")
	missing.Spec.Containers[0].Image = "localhost/missing:1"
	pods.create(workloadPod("web", "serve", ":8080"), once(workloadPod("done", "exit", "0")), once(workloadPod("failed", "exit", "3")),
		workloadPod("crashing", "exit", "7"), missing)

	kubectl(t, l, "-n", space, "wait", "pod/web", "--for=condition=Ready", "--timeout=60s")
	pods.await("done", "done", hasPhase(corev1.PodSucceeded))
	pods.await("failed", "failed", hasPhase(corev1.PodFailed))
	for name, reason := range map[string]string{"crashing": "CrashLoopBackOff", "missing": "ImagePullBackOff"} {
		pods.await(name, "waiting", func(p *corev1.Pod) bool {
			return p != nil && len(p.Status.ContainerStatuses) == 1 &&
				p.Status.ContainerStatuses[0].State.Waiting != nil && p.Status.ContainerStatuses[0].State.Waiting.Reason == reason
		})
	}

	table := kubectl(t, l, "-n", space, "get", "pods", "-o", "wide")
	for name, want := range map[string][3]string{
		"web":      {"1/1", `^Running$`, `^0$`},
		"done":     {"0/1", `^Completed$`, `^0$`},
		"failed":   {"0/1", `^Error$`, `^0$`},
		"crashing": {"0/1", `^(CrashLoopBackOff|Error)$`, `^[1-9]\d* \(\d+s ago\)$`},
		"missing":  {"0/1", `^(ImagePullBackOff|ErrImagePull)$`, `^0$`},
	} {
		row := rowOf(t, table, name)
		mustMatch(t, "READY of "+name, row["READY"], "^"+want[0]+"$")
		mustMatch(t, "STATUS of "+name, row["STATUS"], want[1])
		mustMatch(t, "RESTARTS of "+name, row["RESTARTS"], want[2])
		mustMatch(t, "NODE of "+name, row["NODE"], `^(one|two)$`)
		mustMatch(t, "IP of "+name, row["IP"], `^10\.202\.[12]\.\d+$`)
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
		text := kubectl(t, l, "-n", space, "describe", "pod", name)
		for _, want := range wants {
			mustMatch(t, "kubectl describe pod "+name, text, want)
		}
	}

	// kubectl waits until what it deletes is gone.
	kubectl(t, l, "-n", space, "delete", "pod", "--all", "--timeout=60s")
	mustHavePods(t, admin, space, 0)
}

func mustMatch(t *testing.T, what, text, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(text) {
		t.Errorf("%s: want %s, got:\n%s", what, pattern, text)
	}
}

// rowOf is the row of a name in a table of kubectl's, by the names of the columns.
// They are found by where their heads begin, since some hold spaces.
func rowOf(t *testing.T, table, name string) map[string]string {
	t.Helper()
	head, rows, _ := strings.Cut(table, "\n")
	begins := regexp.MustCompile(`[A-Z]\S*( [A-Z]\S*)*`).FindAllStringIndex(head, -1)
	for line := range strings.Lines(rows) {
		line = strings.TrimRight(line, "\n")
		if !slices.Contains(strings.Fields(line)[:1], name) {
			continue
		}
		row := map[string]string{}
		for i, at := range begins {
			end := len(line)
			if i+1 < len(begins) {
				end = begins[i+1][0]
			}
			row[head[at[0]:at[1]]] = strings.TrimSpace(line[at[0]:end])
		}
		return row
	}
	t.Fatalf("%s has no row:\n%s", name, table)
	return nil
}
