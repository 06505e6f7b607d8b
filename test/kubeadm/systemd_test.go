//go:build real

package kubeadm

import (
	"strings"
	"testing"
)

// maxResets is how often 'kubeadm reset' is run until no pod is left.
const maxResets = 3

// The machine has what a node of kubeadm usually has: systemd, cgroup v2 and a containerd with SystemdCgroup = true. The
// control plane is on a machine of the other kind, since it would take long to start on an emulated one.
func TestAMachineWithSystemdJoins(t *testing.T) {
	version := strings.TrimSpace(kubeadm(t, "version", "--output", "short"))
	images := imagesOf(t, version)
	one, two := newMachines(t, newRegistry(t, images))
	one.boot(images["pause"])
	node := newGuest(t, one, two, images["pause"])
	one.write("/etc/init.yaml", initConfig(one, version, map[string]any{"failCgroupV1": false}))
	one.step("kubeadm", "init", "--config", "/etc/init.yaml", "--ignore-preflight-errors", ignored)
	one.awaitReady("one")
	node.awaitShell()
	daemon := node.configureResources()

	// It joins by a token, with no check of kubeadm left out, and its unit is that of a kubelet.
	node.write("/etc/join.yaml", joinConfig(one, map[string]any{"criSocket": socket}))
	node.step("kubeadm join --config /etc/join.yaml")
	one.awaitReady(guestName)
	node.run("test -e /var/lib/kubelet/pki/kubelet-client-current.pem && ! test -e /etc/kubernetes/bootstrap-kubelet.conf")
	if state := node.run("systemctl show kubelet -p ActiveState -p NRestarts"); !strings.Contains(state, "ActiveState=active") {
		t.Errorf("the unit of the kubelet: %s", state)
	}

	// Pods of a Deployment run in slices, and the API server reaches the kubelet.
	one.run("kubectl", "taint", "node", "one", "node-role.kubernetes.io/control-plane-")
	one.write("/etc/web.yaml", deployment)
	one.run("kubectl", "apply", "-f", "/etc/web.yaml")
	one.run("kubectl", "rollout", "status", "deployment/web", "--timeout", podTimeout.String())
	pods := one.pods("web").on(guestName)
	if len(pods) != replicas/2 {
		t.Fatalf("%d pods on node %s, want %d", len(pods), guestName, replicas/2)
	}
	for _, p := range pods {
		slice := "kubepods-besteffort-pod" + strings.ReplaceAll(p.uid, "-", "_") + ".slice"
		path := "/kubepods.slice/kubepods-besteffort.slice/" + slice
		if got := node.run("systemctl show " + slice + " -p ActiveState -p ControlGroup"); got != "ControlGroup="+path+"\nActiveState=active" {
			t.Errorf("slice of pod %s: %s", p.name, got)
		}
		scope := path + "/cri-containerd-" + strings.TrimPrefix(p.container, "containerd://") + ".scope"
		if len(node.processes(scope)) == 0 {
			t.Errorf("pod %s has no process in %s; the slices are:\n%s", p.name, scope, node.run("systemd-cgls --no-pager /kubepods.slice"))
		}
		one.run("kubectl", "logs", p.name)
	}

	// A drop-in of this node reserves a processor, protects memory and allows for swap.
	node.checkResources(one, daemon)

	// A reset ends the pods, and nothing of the node stays. kubeadm has a fixed timeout of two seconds for a sandbox to stop, which
	// an emulated machine may exceed: then it has to be run again.
	for range maxResets {
		node.step("kubeadm reset --force")
		if len(node.processes("/kubepods.slice")) == 0 {
			break
		}
	}
	node.run("! test -e /etc/kubernetes/kubelet.conf && ! test -e /var/lib/kubelet/config.yaml && ! test -e /var/lib/kubelet/pods && ! systemctl is-active kubelet")
	if left := node.processes("/kubepods.slice"); len(left) > 0 {
		t.Errorf("after the reset, processes %v are below kubepods.slice", left)
	}
	one.run("kubectl", "delete", "node", guestName)
	one.reset()
}
