package control

import "path/filepath"

// Part is a program of the control plane, by the name of its file.
type Part string

const (
	Etcd              Part = "etcd"
	APIServer         Part = "kube-apiserver"
	ControllerManager Part = "kube-controller-manager"
	Scheduler         Part = "kube-scheduler"
)

// order is the order in which parts are started: each needs the parts before it.
var order = []Part{Etcd, APIServer, ControllerManager, Scheduler}

// No other program is in the network namespace, so all parts have their usual ports.
const (
	etcdURL      = "http://127.0.0.1:2379"
	etcdPeerURL  = "http://127.0.0.1:2380"
	apiPort      = "6443"
	managerURL   = "https://127.0.0.1:10257"
	schedulerURL = "https://127.0.0.1:10259"

	serviceRange = "10.96.0.0/16"
	serviceIP    = "10.96.0.1" // of the service `kubernetes`
)

func (p *Plane) etcdData() string { return p.file("etcd") }

func (p *Plane) file(name string) string { return filepath.Join(p.config.Dir, name) }

// args is the command line of a part.
func (p *Plane) args(part Part) []string {
	var args []string
	switch part {
	case Etcd:
		args = p.etcdArgs()
	case APIServer:
		args = p.apiServerArgs()
	case ControllerManager:
		args = append(p.clientArgs(part),
			"--root-ca-file="+p.file(authorityFile+".crt"),
			"--cluster-signing-cert-file="+p.file(authorityFile+".crt"),
			"--cluster-signing-key-file="+p.file(authorityFile+".key"),
			"--service-account-private-key-file="+p.file(accountsFile+".key"),
			"--use-service-account-credentials=true",
			// Its controllers start one after the other, and would wait for leave to ask.
			"--kube-api-qps=300",
			"--kube-api-burst=300",
			// Tokens for TLS bootstrap are cleaned up and published as in a cluster of kubeadm's.
			"--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
		)
	case Scheduler:
		args = p.clientArgs(part)
	}
	return append(args, p.config.Flags[part]...)
}

func (p *Plane) etcdArgs() []string {
	return []string{
		"--data-dir=" + p.etcdData(),
		"--unsafe-no-fsync", // a power cut is not among the tests
		"--log-level=warn",
		"--listen-client-urls=" + etcdURL,
		"--advertise-client-urls=" + etcdURL,
		"--listen-peer-urls=" + etcdPeerURL,
		"--initial-advertise-peer-urls=" + etcdPeerURL,
		"--initial-cluster=default=" + etcdPeerURL,
	}
}

func (p *Plane) apiServerArgs() []string {
	args := []string{
		"--etcd-servers=" + etcdURL,
		"--advertise-address=" + p.config.Address,
		"--bind-address=0.0.0.0",
		"--secure-port=" + apiPort,
		"--tls-cert-file=" + p.file(serverFile+".crt"),
		"--tls-private-key-file=" + p.file(serverFile+".key"),
		"--client-ca-file=" + p.file(authorityFile+".crt"),
		"--requestheader-client-ca-file=" + p.file(authorityFile+".crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth=true",
		"--allow-privileged=true",
		"--service-cluster-ip-range=" + serviceRange,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + p.file(accountsFile+".key"),
		"--service-account-signing-key-file=" + p.file(accountsFile+".key"),
		"--kubelet-client-certificate=" + p.file(kubeletClientFile+".crt"),
		"--kubelet-client-key=" + p.file(kubeletClientFile+".key"),
		"--kubelet-preferred-address-types=InternalIP",
	}
	if p.unwanted(ControllerManager) {
		// Only the controller manager makes the service accounts that this plugin asks for.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	return args
}

// clientArgs are the arguments of a part that is a client of the API. There is only one of each, so
// none has to be elected.
func (p *Plane) clientArgs(part Part) []string {
	kubeconfig := p.kubeconfigFile(partUser(part))
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--tls-cert-file=" + p.file(serverFile+".crt"),
		"--tls-private-key-file=" + p.file(serverFile+".key"),
		"--leader-elect=false",
	}
}

// partUser is the user of the controller manager, or of the scheduler. The API server has roles for both.
func partUser(part Part) User { return User{Name: "system:" + string(part)} }

// readyURLs all answer once a part is ready: it says so, and the objects that it makes at its start
// are there.
func (p *Plane) readyURLs(part Part) []string {
	namespace := p.URL() + "/api/v1/namespaces/default"
	switch part {
	case Etcd:
		return []string{etcdURL + "/readyz"}
	case APIServer:
		return []string{p.URL() + "/readyz", namespace}
	case ControllerManager:
		return []string{managerURL + "/healthz", namespace + "/serviceaccounts/default"}
	default:
		return []string{schedulerURL + "/readyz"}
	}
}
