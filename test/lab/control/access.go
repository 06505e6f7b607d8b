package control

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"berth/test/netns"
)

// User is the identity of a client, which the API server reads from its certificate.
type User struct {
	Name   string
	Groups []string
}

// Admin may do everything.
func Admin() User { return User{Name: "admin", Groups: []string{"system:masters"}} }

// Node may do what the agent of one node has to.
func Node(name string) User {
	return User{Name: "system:node:" + name, Groups: []string{"system:nodes"}}
}

// URL is the URL of the API server, as seen from nodes.
func (p *Plane) URL() string { return "https://" + net.JoinHostPort(p.config.Address, apiPort) }

// Address is the address of the API server, as seen from nodes.
func (p *Plane) Address() string { return p.config.Address }

// Authority is the certificate that all servers of the cluster are checked with.
func (p *Plane) Authority() []byte { return bytes.Clone(p.authority.cert) }

// ServerCertificate is a certificate for a server at an address, signed by the authority of the cluster.
func (p *Plane) ServerCertificate(name string, address net.IP) (tls.Certificate, error) {
	pair, err := p.authority.server(name, []string{name}, []net.IP{address})
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(pair.cert, pair.key)
}

// RESTConfig is for clients in this process, which need not be in the namespace. They
// may ask as often as they like.
func (p *Plane) RESTConfig(u User) (*rest.Config, error) {
	pair, err := p.authority.client(u)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            p.URL(),
		TLSClientConfig: rest.TLSClientConfig{CAData: p.authority.cert, CertData: pair.cert, KeyData: pair.key},
		Dial:            p.config.Namespace.Dial,
		QPS:             -1,
	}, nil
}

// Client talks to the API server as u.
func (p *Plane) Client(u User) (*kubernetes.Clientset, error) {
	config, err := p.RESTConfig(u)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// Kubeconfig writes a kubeconfig of u for programs that can reach the API server, and
// returns the file. Nothing else is needed to use it.
func (p *Plane) Kubeconfig(u User) (string, error) {
	file := p.kubeconfigFile(u)
	return file, p.WriteKubeconfig(file, u, p.URL())
}

// WriteKubeconfig is like Kubeconfig, for programs that reach the API server by
// another URL, such as the one of a proxy.
func (p *Plane) WriteKubeconfig(file string, u User, url string) error {
	pair, err := p.authority.client(u)
	if err != nil {
		return err
	}
	const name = "berth"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: p.authority.cert}
	config.AuthInfos[u.Name] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.cert, ClientKeyData: pair.key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: u.Name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("write kubeconfig of %s: %w", u.Name, err)
	}
	return nil
}

func (p *Plane) kubeconfigFile(u User) string {
	return p.file(strings.ReplaceAll(u.Name, ":", "-") + ".kubeconfig")
}

// Kubectl runs the real kubectl as the admin, and returns what it printed.
func (p *Plane) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(p.config.Programs, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfigFile(Admin()), "KUBECACHEDIR="+p.file("kubectl"))
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := p.config.Namespace.Inside(cmd.Run); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return out.String(), nil
}

// Namespace is where the plane runs, and where its nodes can reach it.
func (p *Plane) Namespace() *netns.Namespace { return p.config.Namespace }
