//go:build real

package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"berth/test/cluster/kit"
	"berth/test/lab"
	"berth/test/lab/control"
)

const addressV6 = "fd00:99::11"

// newSecondKubelet returns a kubelet that is node two, on the machine of node one, and the flag for its kubeconfig. Tests with one are
// not parallel: all kubelets of a machine have the cgroup kubepods.
func newSecondKubelet(t *testing.T) (k *kubelet, admin kubernetes.Interface, plane *lab.Lab, kubeconfig string) {
	t.Helper()
	plane = kit.NewPlane(t, control.ControllerManager)
	machine := kit.JoinNodeAs(t, plane, lab.NodeConfig{Name: "one", Flags: []string{"--port", "10350", "--healthz-port", "0"}})
	kit.Must(t, plane.AwaitNodes(t.Context()))
	file, err := plane.Kubeconfig(control.Node("two"))
	kit.Must(t, err)
	return newKubelet(t, plane, machine), kit.Client(t, plane, control.Admin()), plane, "--kubeconfig=" + file
}

func awaitReadyNode(t *testing.T, plane *lab.Lab) {
	t.Helper()
	kit.Kubectl(t, plane, "wait", "node/two", "--for=create", "--timeout=60s")
	kit.Kubectl(t, plane, "wait", "node/two", "--for=condition=Ready", "--timeout=60s")
}

// awaitAddresses waits until the Node has exactly these addresses, as "Type Address".
func awaitAddresses(t *testing.T, admin kubernetes.Interface, want ...string) {
	t.Helper()
	kit.Within(t, kit.WaitTimeout, func() error {
		node, err := admin.CoreV1().Nodes().Get(t.Context(), "two", metav1.GetOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, a := range node.Status.Addresses {
			got = append(got, fmt.Sprint(a.Type, " ", a.Address))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("the node has addresses %q, want %q", got, want)
		}
		return nil
	})
}

// ipsOf returns the IPs of a pod, and of its host.
func ipsOf(p *corev1.Pod) (pod, host []string) {
	for _, ip := range p.Status.PodIPs {
		pod = append(pod, ip.IP)
	}
	for _, ip := range p.Status.HostIPs {
		host = append(host, ip.IP)
	}
	return pod, host
}

func hostNetworkPod(name string) *corev1.Pod {
	p := kit.OnNode(kit.WorkloadPod(name, "sleep"), "two")
	p.Spec.HostNetwork = true
	return p
}

func TestANodeHasAddressesOfTwoFamilies(t *testing.T) {
	k, admin, plane, kubeconfig := newSecondKubelet(t)
	_, err := k.machine.Namespace.Run("ip", "address", "add", addressV6+"/64", "dev", "eth0", "nodad")
	kit.Must(t, err)
	k.start(kubeconfig, "--node-ip="+k.machine.Address+","+addressV6)
	awaitReadyNode(t, plane)

	// The Node has both, in the order of the flag.
	awaitAddresses(t, admin, "InternalIP "+k.machine.Address, "InternalIP "+addressV6, "Hostname two")

	// So do pods: with the network of the host as their own addresses, and all as those of the host.
	pods := kit.PodsIn(t, admin, "default")
	both := []string{k.machine.Address, addressV6}
	pods.MustCreate(hostNetworkPod("host"), kit.OnNode(kit.WorkloadPod("web", "sleep"), "two"))
	if ips, host := ipsOf(pods.Await("host", "ready", kit.IsReady)); !slices.Equal(ips, both) || !slices.Equal(host, both) {
		t.Errorf("a pod with the network of the host has %v on %v", ips, host)
	}
	if ips, host := ipsOf(pods.Await("web", "ready", kit.IsReady)); len(ips) == 0 || slices.Contains(both, ips[0]) || !slices.Equal(host, both) {
		t.Errorf("a pod with a network of its own has %v on %v", ips, host)
	}

	// The other order is another first address.
	kit.Must(t, k.process.Stop())
	k.start(kubeconfig, "--node-ip="+addressV6+","+k.machine.Address)
	awaitAddresses(t, admin, "InternalIP "+addressV6, "InternalIP "+k.machine.Address, "Hostname two")
	pods.MustCreate(hostNetworkPod("later"))
	if ips, host := ipsOf(pods.Await("later", "ready", kit.IsReady)); !slices.Equal(ips, []string{addressV6, k.machine.Address}) || !slices.Equal(host, ips) {
		t.Errorf("a later pod with the network of the host has %v on %v", ips, host)
	}
	pods.MustRemove("host", "web", "later")
}

const (
	uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	providedIPs   = "alpha.kubernetes.io/provided-node-ip"
	publicAddress = "203.0.113.7"
)

// completeNode does to a Node what a cloud controller manager does.
func completeNode(t *testing.T, admin kubernetes.Interface, internal string) {
	t.Helper()
	nodes := admin.CoreV1().Nodes()
	kit.Must(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(t.Context(), "two", metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: internal}, {Type: corev1.NodeExternalIP, Address: publicAddress}, {Type: corev1.NodeInternalDNS, Address: "two.cloud"},
		}
		_, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
		return err
	}))
	kit.Must(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(t.Context(), "two", metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.ProviderID = "cloud://two"
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == uninitialized })
		_, err = nodes.Update(t.Context(), node, metav1.UpdateOptions{})
		return err
	}))
}

func TestACloudCompletesTheNode(t *testing.T) {
	k, admin, plane, kubeconfig := newSecondKubelet(t)
	k.start(kubeconfig, "--cloud-provider=external")
	awaitReadyNode(t, plane)

	// The Node waits for the cloud, with the address that was set by hand.
	node, err := admin.CoreV1().Nodes().Get(t.Context(), "two", metav1.GetOptions{})
	kit.Must(t, err)
	if !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == uninitialized && taint.Value == "true" && taint.Effect == corev1.TaintEffectNoSchedule
	}) {
		t.Errorf("its taints are %v", node.Spec.Taints)
	}
	if got := node.Annotations[providedIPs]; got != k.machine.Address {
		t.Errorf("annotation %s is %q", providedIPs, got)
	}
	awaitAddresses(t, admin, "InternalIP "+k.machine.Address, "Hostname two")

	// What the cloud has set stays, also over a restart of the kubelet and its next status.
	completeNode(t, admin, k.machine.Address)
	kit.Must(t, k.process.Stop())
	restarted := time.Now().Truncate(time.Second)
	k.start(kubeconfig, "--cloud-provider=external")
	kit.Within(t, kit.WaitTimeout, func() error {
		if node, err = admin.CoreV1().Nodes().Get(t.Context(), "two", metav1.GetOptions{}); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && !c.LastHeartbeatTime.Time.Before(restarted) {
				return nil
			}
		}
		return fmt.Errorf("no new status of a node that is ready: %v", node.Status.Conditions)
	})
	awaitAddresses(t, admin, "InternalIP "+k.machine.Address, "ExternalIP "+publicAddress, "InternalDNS two.cloud")
	if slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == uninitialized }) {
		t.Errorf("the taint is back: %v", node.Spec.Taints)
	}
	if node.Spec.ProviderID != "cloud://two" || node.Annotations[providedIPs] != k.machine.Address {
		t.Errorf("provider %q, annotations %v", node.Spec.ProviderID, node.Annotations)
	}

	// Pods have the addresses of the cloud.
	pods := kit.PodsIn(t, admin, "default")
	pods.MustCreate(hostNetworkPod("host"))
	if ips, host := ipsOf(pods.Await("host", "ready", kit.IsReady)); !slices.Equal(ips, []string{k.machine.Address}) || !slices.Equal(host, ips) {
		t.Errorf("a pod with the network of the host has %v on %v", ips, host)
	}
	pods.MustRemove("host")
}
