//go:build real

package kubeadm

import (
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// nodeDropIn is a file of --config-dir, for the node that has cgroup v2, swap and systemd.
const nodeDropIn = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
featureGates: {MemoryQoS: true}
memoryReservationPolicy: TieredReservation
failSwapOn: false
memorySwap: {swapBehavior: LimitedSwap}
reservedSystemCPUs: "0"
cgroupRoot: /
systemCgroups: /daemons
`

// memoryPods are a Guaranteed pod, and a Burstable one that wants more processor time than it gets.
var memoryPods = fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: guaranteed, labels: {app: memory}}
spec:
  nodeSelector: {kubernetes.io/hostname: %[1]s}
  terminationGracePeriodSeconds: 0
  containers:
  - {name: app, image: %[2]s/workload:1, args: [sleep], resources: {limits: {cpu: 50m, memory: 64Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: burstable, labels: {app: memory}}
spec:
  nodeSelector: {kubernetes.io/hostname: %[1]s}
  terminationGracePeriodSeconds: 0
  containers:
  - {name: app, image: %[2]s/workload:1, args: [spin], resources: {requests: {memory: 64Mi}, limits: {cpu: 50m, memory: 128Mi}}}
`, guestName, repository)

// configureResources gives the guest swap, a process that is in no cgroup, and the drop-in. It returns the process.
func (g *guest) configureResources() (daemon string) {
	g.t.Helper()
	g.run("fallocate -l 256M /swap && chmod 600 /swap && mkswap -q /swap && swapon /swap")
	g.run("mkdir /etc/kubernetes/kubelet.d")
	g.write("/etc/kubernetes/kubelet.d/10-resources.conf", nodeDropIn)
	g.write("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--config-dir=/etc/kubernetes/kubelet.d\n")
	return g.run("setsid sleep infinity >/dev/null & echo $! | tee /sys/fs/cgroup/cgroup.procs")
}

// checkResources compares files of cgroups and properties of slices with what the drop-in asks for.
func (g *guest) checkResources(plane *machine, daemon string) {
	g.t.Helper()
	if got := plane.run("kubectl", "get", "node", guestName, "-o", "jsonpath={.status.capacity.cpu} {.status.allocatable.cpu}"); got != "2 1" {
		g.t.Errorf("with a reserved processor, the node has %s", got)
	}
	if got := g.run("cat /proc/" + daemon + "/cgroup"); got != "0::/daemons" {
		g.t.Errorf("a process that was in no cgroup is in %s", got)
	}

	plane.write("/etc/memory.yaml", memoryPods)
	plane.run("kubectl", "apply", "-f", "/etc/memory.yaml")
	plane.run("kubectl", "wait", "pod", "-l", "app=memory", "--for=condition=Ready", "--timeout", podTimeout.String())
	slices := map[string]string{"kubepods": "/kubepods.slice", "burstable": "/kubepods.slice/kubepods-burstable.slice"}
	for _, p := range plane.pods("memory") {
		parent, prefix := slices["kubepods"], "kubepods"
		if p.name == "burstable" {
			parent, prefix = slices["burstable"], "kubepods-burstable"
		}
		pod := parent + "/" + prefix + "-pod" + strings.ReplaceAll(p.uid, "-", "_") + ".slice"
		slices["pod "+p.name], slices["container "+p.name] = pod, pod+"/cri-containerd-"+strings.TrimPrefix(p.container, "containerd://")+".scope"
	}
	for of, want := range map[string]map[string]string{
		"kubepods":             {"memory.min": "134217728", "cpuset.cpus": "0-1"},
		"burstable":            {"memory.low": "67108864"},
		"pod guaranteed":       {"memory.min": "67108864", "memory.low": "0"},
		"container guaranteed": {"memory.min": "67108864", "memory.high": "max", "memory.swap.max": "0"},
		"pod burstable":        {"memory.min": "0", "memory.low": "67108864"},
		"container burstable":  {"memory.low": "67108864", "memory.high": "127504384", "memory.swap.max": g.swapFor(64 << 20)},
	} {
		for file, value := range want {
			if got := g.run("cat /sys/fs/cgroup" + slices[of] + "/" + file); got != value {
				g.t.Errorf("%s of %s is %s, want %s", file, of, got, value)
			}
		}
	}
	for want, of := range map[string]string{
		"MemoryMin=134217728": "kubepods", "AllowedCPUs=0-1": "kubepods", "MemoryMin=67108864": "pod guaranteed", "MemoryLow=67108864": "pod burstable",
	} {
		property, _, _ := strings.Cut(want, "=")
		if got := g.run("systemctl show -p " + property + " " + path.Base(slices[of])); got != want {
			g.t.Errorf("systemd has %s for %s, want %s", got, of, want)
		}
	}
	g.checkPressure(plane)
}

// swapFor returns the amount of swap that a Burstable container with a memory request may use, in whole pages.
func (g *guest) swapFor(request float64) string {
	g.t.Helper()
	var memory, swap float64
	_, err := fmt.Sscan(g.run(`awk '/^(MemTotal|SwapTotal):/ {print $2}' /proc/meminfo`), &memory, &swap)
	must(g.t, err)
	limit := int64(request / (memory * 1024) * swap * 1024)
	return strconv.FormatInt(limit/4096*4096, 10)
}

// checkPressure fails the test unless the summary has the time that the Burstable pod waited for a processor.
func (g *guest) checkPressure(plane *machine) {
	g.t.Helper()
	for query, io := range map[string]bool{"": true, "?only_cpu_and_memory=true": false} {
		plane.within(podTimeout, func() error {
			var summary stats.Summary
			if err := json.Unmarshal([]byte(plane.run("kubectl", "get", "--raw", "/api/v1/nodes/"+guestName+"/proxy/stats/summary"+query)), &summary); err != nil {
				return err
			}
			for _, p := range summary.Pods {
				if p.PodRef.Name != "burstable" || len(p.Containers) == 0 {
					continue
				}
				c, n := p.Containers[0], summary.Node
				for name, cpu := range map[string]*stats.CPUStats{"pod": p.CPU, "container": c.CPU, "node": n.CPU} {
					if cpu == nil || cpu.PSI == nil || cpu.PSI.Some.Total == 0 {
						return fmt.Errorf("%q: the %s has waited for no processor: %+v", query, name, cpu)
					}
				}
				if c.Memory == nil || c.Memory.PSI == nil || (p.IO != nil) != io || (c.IO != nil) != io || (n.IO != nil) != io {
					return fmt.Errorf("%q: memory %+v, I/O %+v, %+v, %+v", query, c.Memory, p.IO, c.IO, n.IO)
				}
				return nil
			}
			return fmt.Errorf("%q: there is no pod in %+v", query, summary)
		})
	}
}
