//go:build real

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"berth/internal/cluster/cert"
	"berth/internal/cluster/kubeclient"
	"berth/test/cluster/kit"
	"berth/test/lab"
	"berth/test/lab/control"
	"berth/test/lab/proxy"
)

// shortLife is the lifetime of all certificates that the cluster issues. It makes them five
// minutes older than they are, so most are renewed as soon as they come.
const shortLife = time.Minute

// Groups of bootstrap tokens: both may ask for a certificate, and one gets it.
const (
	trusted = "system:bootstrappers:trusted"
	waiting = "system:bootstrappers:waiting"
)

func TestANodeGetsItsCertificatesFromTheCluster(t *testing.T) {
	t.Parallel()
	plane := newSigningPlane(t)
	admin := kit.Client(t, plane, control.Admin())
	letAsk(t, admin)
	url := reach(t, plane)

	t.Run("a token is enough, and the certificate is renewed before it expires", func(t *testing.T) {
		t.Parallel()
		c := newcomer(t, plane, admin, url, "one", trusted, "aaaaaa")
		kit.Must(t, cert.Bootstrap(t.Context(), c))

		clients := renewing(t, c)
		me, err := clients.General.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, kit.CreateOptions)
		kit.Must(t, err)
		if user := me.Status.UserInfo.Username; user != "system:node:one" {
			t.Fatalf("the cluster takes it for %s", user)
		}
		_, err = clients.General.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, kit.CreateOptions)
		kit.Must(t, err)

		// No request is refused while several certificates come and go.
		asked := 0
		for end := time.Now().Add(shortLife + 15*time.Second); time.Now().Before(end); asked++ {
			mustAsk(t, clients.General)
			mustAsk(t, clients.Heartbeat)
			time.Sleep(50 * time.Millisecond) // as an approver takes its time
		}
		t.Logf("%d requests, and none was refused", 2*asked)
		mustBeRenewed(t, admin, "system:node:one")

		// The kubeconfig works for others, too, and after a restart.
		if again, err := cert.NewClient(c); again == nil || err != nil || time.Now().After(again.Certificate().Leaf.NotAfter) {
			t.Errorf("after a restart there is no good certificate: %v", err)
		}
	})

	t.Run("an agent with a token joins, and its static pods do not wait for that", func(t *testing.T) {
		t.Parallel()
		c := newcomer(t, plane, admin, plane.URL(), "three", waiting, "cccccc")
		node, err := plane.Join(lab.NodeConfig{Name: "three", Kubeconfig: c.Kubeconfig, Settings: "serverTLSBootstrap: true\n", Flags: []string{"--bootstrap-kubeconfig", c.BootstrapKubeconfig}})
		kit.Must(t, err)
		kit.AddStaticPod(t, node, "early")
		name := awaitRequest(t, admin, certificatesv1.KubeAPIServerClientKubeletSignerName, "system:bootstrap:cccccc")
		kit.Within(t, kit.WaitTimeout, func() error {
			out, err := node.Berth("get", "pods")
			if err == nil && !strings.Contains(out, "Running") {
				err = fmt.Errorf("its pods are %s", out)
			}
			return err
		})
		kit.Kubectl(t, plane, "certificate", "approve", name)
		mirror := kit.AwaitPod(t, admin, "early-three", "ready", kit.IsReady)

		// Its certificates expire several times, without an effect. Those for its own API have to
		// be approved each time.
		served := map[string]bool{}
		for end := time.Now().Add(shortLife + 15*time.Second); time.Now().Before(end); time.Sleep(time.Second) {
			for _, r := range requestsFor(t, admin, certificatesv1.KubeletServingSignerName, "system:node:three") {
				if len(r.Status.Conditions) == 0 {
					kit.Kubectl(t, plane, "certificate", "approve", r.Name)
				}
			}
			if leaf, err := shownBy(t, plane, node); err == nil {
				served[leaf.SerialNumber.String()] = true
			}
			n, err := admin.CoreV1().Nodes().Get(t.Context(), "three", kit.GetOptions)
			kit.Must(t, err)
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
					t.Fatalf("the node is not ready: %+v", c)
				}
			}
		}
		mustBeRenewed(t, admin, "system:node:three")
		if len(served) < 2 {
			t.Errorf("it showed %d certificates to those who called it", len(served))
		}
		kit.MustKeepInstance(t, kit.AwaitPod(t, admin, "early-three", "ready", kit.IsReady), kit.InstanceOf(mirror))
		kit.Must(t, node.Stop()) // its credentials go with this test
	})

	t.Run("an agent that is killed while nobody approves takes up its request", func(t *testing.T) {
		c := newcomer(t, plane, admin, plane.URL(), "four", waiting, "dddddd")
		node, err := plane.Join(lab.NodeConfig{Name: "four", Kubeconfig: c.Kubeconfig, Flags: []string{"--bootstrap-kubeconfig", c.BootstrapKubeconfig}})
		kit.Must(t, err)
		name := awaitRequest(t, admin, certificatesv1.KubeAPIServerClientKubeletSignerName, "system:bootstrap:dddddd")

		// Each time it comes back it waits for the same one, and says so.
		for range 2 {
			node.Kill()
			log := kit.MarkLog(t, node)
			kit.Must(t, node.Start())
			kit.Within(t, kit.WaitTimeout, func() error {
				if !strings.Contains(log.Since(t), "kubectl certificate approve "+name) {
					return fmt.Errorf("it does not wait for %s", name)
				}
				return nil
			})
		}
		kit.Kubectl(t, plane, "certificate", "approve", name)

		// Then it joins, and has the key of its certificate.
		kit.Must(t, plane.AwaitNodes(t.Context()))
		if n := len(requestsFor(t, admin, certificatesv1.KubeAPIServerClientKubeletSignerName, "system:bootstrap:dddddd")); n != 1 {
			t.Errorf("%d requests were made", n)
		}
		kit.Must(t, node.Stop()) // its credentials go with this test, and are renewed no more
		both := filepath.Join(node.Root, "pki", "kubelet-client-current.pem")
		pair, err := tls.LoadX509KeyPair(both, both)
		kit.Must(t, err)
		if user := pair.Leaf.Subject.CommonName; user != "system:node:four" {
			t.Errorf("its certificate is that of %s", user)
		}
	})

	t.Run("a node gets a certificate to serve with", func(t *testing.T) {
		c := newcomer(t, plane, admin, url, "two", trusted, "bbbbbb")
		kit.Must(t, cert.Bootstrap(t.Context(), c))
		clients := renewing(t, c)
		address := net.ParseIP("10.99.0.7")
		serving, err := cert.NewServing(cert.ServingConfig{
			Node: "two", CertDir: c.CertDir, Bootstrap: true, CSRs: clients.General.CertificatesV1(), Log: c.Log,
			Addresses: func() []corev1.NodeAddress {
				return []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.String()}, {Type: corev1.NodeHostName, Address: "two"}}
			},
		})
		kit.Must(t, err)
		inBackground(t, serving.Run)
		kit.Kubectl(t, plane, "certificate", "approve", awaitRequest(t, admin, certificatesv1.KubeletServingSignerName, "system:node:two"))
		kit.Must(t, keepTrying(t, func() error { _, err := serving.GetCertificate(nil); return err }))

		pair, err := serving.GetCertificate(nil)
		kit.Must(t, err)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(plane.Authority())
		for _, name := range []string{address.String(), "two"} {
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
				t.Errorf("who asks for %s does not trust it: %v", name, err)
			}
		}
	})
}

// newSigningPlane is a control plane whose certificates soon expire.
func newSigningPlane(t *testing.T) *lab.Lab {
	t.Helper()
	flags := map[control.Part][]string{control.ControllerManager: {"--cluster-signing-duration=" + shortLife.String()}}
	return kit.NewPlaneWith(t, flags, control.ControllerManager)
}

// letAsk gives bootstrap tokens and nodes the rights that clusters give them.
func letAsk(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	for group, role := range map[string]string{
		"system:bootstrappers": "system:node-bootstrapper",
		trusted:                "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
		"system:nodes":         "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
	} {
		_, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "cert-test-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
		}, kit.CreateOptions)
		kit.Must(t, err)
	}
}

// reach returns where this process, which is not in the namespace, finds the API server.
func reach(t *testing.T, plane *lab.Lab) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	kit.Must(t, err)
	p := proxy.NewTCP(listener, plane.Namespace().Dial, plane.URL()[len("https://"):])
	t.Cleanup(p.Close)
	return "https://" + p.Address()
}

// newcomer is a node that has nothing but a token.
func newcomer(t *testing.T, plane *lab.Lab, admin kubernetes.Interface, url, name, group, id string) cert.ClientConfig {
	t.Helper()
	const secret = "0123456789abcdef"
	_, err := admin.CoreV1().Secrets("kube-system").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true", "auth-extra-groups": group,
		},
	}, kit.CreateOptions)
	kit.Must(t, err)
	dir := t.TempDir()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: plane.Authority()}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: id + "." + secret}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	bootstrap := filepath.Join(dir, "bootstrap")
	kit.Must(t, clientcmd.WriteToFile(*config, bootstrap))
	return cert.ClientConfig{
		Node: name, CertDir: filepath.Join(dir, "pki"), Kubeconfig: filepath.Join(dir, "kubeconfig"), BootstrapKubeconfig: bootstrap,
		Rotate: true, UserAgent: "test", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// renewing are clients that show the node's certificate, which is kept good.
func renewing(t *testing.T, c cert.ClientConfig) *kubeclient.Clients {
	t.Helper()
	client, err := cert.NewClient(c)
	kit.Must(t, err)
	clients, err := kubeclient.New(kubeclient.Config{Kubeconfig: c.Kubeconfig, UserAgent: "test", ClientCertificate: client.Certificate})
	kit.Must(t, err)
	inBackground(t, func(ctx context.Context) { client.Run(ctx, clients.Reconnect) })
	return clients
}

// inBackground lets f run until the test ends.
func inBackground(t *testing.T, f func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { f(ctx) })
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

// mustAsk makes a request that only the node itself may make. A request during which
// the certificate is replaced may be cut off; then it works at once.
func mustAsk(t *testing.T, c *kubeclient.Client) {
	t.Helper()
	_, err := c.CoreV1().Nodes().Get(t.Context(), "one", kit.GetOptions)
	if err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		t.Logf("cut off: %v", err)
		_, err = c.CoreV1().Nodes().Get(t.Context(), "one", kit.GetOptions)
	}
	kit.Must(t, err)
}

// mustBeRenewed checks that a node has requested certificates with its own identity.
func mustBeRenewed(t *testing.T, admin kubernetes.Interface, user string) {
	t.Helper()
	n := len(requestsFor(t, admin, certificatesv1.KubeAPIServerClientKubeletSignerName, user))
	if n == 0 {
		t.Error("the certificate was not renewed")
	}
	t.Logf("renewed %d times", n)
}

// requestsFor are the certificate signing requests of a user for a kind of certificate.
func requestsFor(t *testing.T, admin kubernetes.Interface, signer, user string) []certificatesv1.CertificateSigningRequest {
	t.Helper()
	list, err := admin.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.signerName=" + signer})
	kit.Must(t, err)
	var out []certificatesv1.CertificateSigningRequest
	for _, r := range list.Items {
		if r.Spec.Username == user {
			out = append(out, r)
		}
	}
	return out
}

// awaitRequest returns the name of a certificate signing request that is not approved yet.
func awaitRequest(t *testing.T, admin kubernetes.Interface, signer, user string) (name string) {
	t.Helper()
	kit.Must(t, keepTrying(t, func() error {
		for _, r := range requestsFor(t, admin, signer, user) {
			if len(r.Status.Conditions) == 0 {
				name = r.Name
				return nil
			}
		}
		return fmt.Errorf("there is no request of signer %s for a certificate", signer)
	}))
	return name
}

// keepTrying tries for some seconds until there is no error.
func keepTrying(t *testing.T, try func() error) error {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if err := try(); err == nil || time.Now().After(end) {
			return err
		}
	}
}
