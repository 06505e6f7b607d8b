//go:build real

package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth/test/cluster/kit"
	"berth/test/lab"
	"berth/test/lab/control"
)

// newTaintedPlane returns a control plane whose controllers do not evict pods from tainted nodes:
// else pods are gone before the node can refuse them.
func newTaintedPlane(t *testing.T) *lab.Lab {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Split(kit.Labs))
	kit.Must(t, err)
	config := kit.LabConfig(dir, control.ControllerManager)
	config.Images = []string{kit.WorkloadArchive(t)}
	config.Flags = map[control.Part][]string{control.ControllerManager: {"--controllers=*,-taint-eviction-controller"}}
	l, err := lab.Start(t.Context(), config)
	kit.Must(t, err)
	t.Cleanup(func() {
		kit.DumpLogs(t, l, control.APIServer)
		if err := kit.EndLab(l); err != nil {
			t.Error(err)
		}
	})
	return l
}

// writePair writes a certificate for the node API, and its key, to dir.
func writePair(t *testing.T, plane *lab.Lab, dir string) (serial string) {
	t.Helper()
	pair, err := plane.ServerCertificate("kept", net.ParseIP("10.99.0.11"))
	kit.Must(t, err)
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	kit.Must(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	kit.Must(t, err)
	for name, block := range map[string]*pem.Block{
		"tls.key": {Type: "PRIVATE KEY", Bytes: key}, "tls.crt": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
	} {
		kit.Must(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	return leaf.SerialNumber.String()
}

// shownBy is the certificate that a node shows to its clients, if the cluster's authority has signed
// it.
func shownBy(t *testing.T, plane *lab.Lab, n *lab.Node) (*x509.Certificate, error) {
	t.Helper()
	raw, err := n.Namespace.Dial(t.Context(), "tcp", net.JoinHostPort(n.Address, "10250"))
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(plane.Authority())
	conn := tls.Client(raw, &tls.Config{RootCAs: roots, ServerName: n.Address, MinVersion: tls.VersionTLS12})
	if err := conn.HandshakeContext(t.Context()); err != nil {
		return nil, err
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

func TestANodeIsAsItsOwnerWantsIt(t *testing.T) {
	t.Parallel()
	plane := newTaintedPlane(t)
	admin := kit.Client(t, plane, control.Admin())
	dir := t.TempDir()
	first := writePair(t, plane, dir)
	n := kit.JoinNodeAs(t, plane, lab.NodeConfig{
		Name:     "kept",
		Settings: fmt.Sprintf("maxPods: 3\ntlsCertFile: %s/tls.crt\ntlsPrivateKeyFile: %s/tls.key\n", dir, dir),
		Flags:    []string{"--node-labels", "tier=edge", "--register-with-taints", "dedicated=lab:NoExecute"},
	})
	kit.Must(t, plane.AwaitNodes(t.Context()))
	pods := kit.PodsIn(t, admin, "default")
	var err error

	// its labels, taints and limits are in the cluster, and nothing keeps pods away once it is ready
	kit.Within(t, kit.WaitTimeout, func() error {
		node, err := admin.CoreV1().Nodes().Get(t.Context(), "kept", kit.GetOptions)
		if err == nil && (len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != "dedicated" || node.Labels["tier"] != "edge" || node.Status.Allocatable.Pods().Value() != 3) {
			err = fmt.Errorf("taints %v, labels %v, %s pods", node.Spec.Taints, node.Labels, node.Status.Allocatable.Pods())
		}
		return err
	})

	// a certificate that is replaced on disk is the one that callers see
	shows := func(want string) func() error {
		return func() error {
			leaf, err := shownBy(t, plane, n)
			if err == nil && leaf.SerialNumber.String() != want {
				err = fmt.Errorf("it shows %s", leaf.SerialNumber)
			}
			return err
		}
	}
	kit.Within(t, kit.WaitTimeout, shows(first))
	second := writePair(t, plane, dir)
	kit.Within(t, kit.WaitTimeout, shows(second))

	// what does not fit is refused, in words that people know
	tolerant := func(name string) *corev1.Pod {
		p := kit.OnNode(kit.WorkloadPod(name, "sleep"), "kept")
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		return p
	}
	port := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
		return p
	}
	refused := func(p *corev1.Pod, reason string) {
		t.Helper()
		pods.MustCreate(p)
		if got := pods.Await(p.Name, "refused", kit.HasPhase(corev1.PodFailed)); got.Status.Reason != reason {
			t.Errorf("%s was refused as %s: %s", p.Name, got.Status.Reason, got.Status.Message)
		}
	}
	pods.MustCreate(port(tolerant("first")))
	pods.Await("first", "ready", kit.IsReady)
	refused(kit.OnNode(kit.WorkloadPod("unwelcome", "sleep"), "kept"), "TaintToleration")
	refused(port(tolerant("port")), "NodePorts")
	far := tolerant("far")
	far.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "tier", Operator: corev1.NodeSelectorOpIn, Values: []string{"core"}}}}},
	}}}
	refused(far, "NodeAffinity")
	windows := tolerant("windows")
	windows.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
	refused(windows, "PodOSNotSupported")

	// a static pod runs in spite of the taint, and its mirror is as its file says, whatever others do
	kit.AddStaticPod(t, n, "fixture")
	mirror := pods.Await("fixture-kept", "ready", kit.IsReady)
	_, err = pods.Patch(t.Context(), mirror.Name, types.StrategicMergePatchType, []byte(`{"spec":{"containers":[{"name":"app","image":"localhost/other:1"}]}}`), metav1.PatchOptions{})
	kit.Must(t, err)
	again := pods.Await(mirror.Name, "made anew", func(p *corev1.Pod) bool { return kit.IsReady(p) && p.UID != mirror.UID })
	kit.MustKeepInstance(t, again, kit.InstanceOf(mirror))

	pods.MustCreate(tolerant("third"))
	third := pods.Await("third", "ready", kit.IsReady)
	refused(tolerant("fourth"), "OutOfpods")

	// a status that another program writes is corrected
	_, err = pods.Patch(t.Context(), "third", types.StrategicMergePatchType, []byte(`{"status":{"phase":"Pending","conditions":[{"type":"Ready","status":"False"}]}}`), metav1.PatchOptions{}, "status")
	kit.Must(t, err)
	right := pods.AwaitWithin(10*time.Second, "third", "put right", func(p *corev1.Pod) bool { return kit.IsReady(p) && p.Status.Phase == corev1.PodRunning })
	kit.MustKeepInstance(t, right, kit.InstanceOf(third))
}
