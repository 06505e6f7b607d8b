package cert

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"berth/internal/cluster/kubeclient"
)

// usable reports whether there is a kubeconfig with valid credentials. A kubeconfig that can't be
// parsed is an error: a user may have written it, so the node does not replace it.
func usable(path string, now time.Time) (bool, error) {
	loaded, err := (&clientcmd.ClientConfigLoadingRules{ExplicitPath: path}).Load()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	if files := certificateOf(loaded); hasCertificate(files) {
		// A certificate that is missing or damaged is replaced, as if it had expired.
		if pair, _ := pairOf(files); expired(pair, now) {
			return false, nil
		}
	}
	// Tokens and other credentials have no expiry that could be checked.
	_, err = kubeclient.Load(path)
	return err == nil, err
}

// certificateOf returns the client certificate that a kubeconfig names. Unlike kubeclient.Load it
// does not fail if the file does not exist.
func certificateOf(loaded *clientcmdapi.Config) rest.TLSClientConfig {
	context := loaded.Contexts[loaded.CurrentContext]
	if context == nil || loaded.AuthInfos[context.AuthInfo] == nil {
		return rest.TLSClientConfig{}
	}
	user := loaded.AuthInfos[context.AuthInfo]
	return rest.TLSClientConfig{
		CertFile: user.ClientCertificate, CertData: user.ClientCertificateData,
		KeyFile: user.ClientKey, KeyData: user.ClientKeyData,
	}
}

func hasCertificate(c rest.TLSClientConfig) bool { return c.CertFile != "" || len(c.CertData) > 0 }

// pairOf reads a client certificate and its key.
func pairOf(c rest.TLSClientConfig) (*tls.Certificate, error) {
	cert, key := c.CertData, c.KeyData
	var err error
	if len(cert) == 0 {
		if cert, err = os.ReadFile(c.CertFile); err != nil {
			return nil, err
		}
	}
	if len(key) == 0 {
		if key, err = os.ReadFile(c.KeyFile); err != nil {
			return nil, err
		}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

// writeKubeconfig writes the kubeconfig of a node: its cluster is taken from the bootstrap
// kubeconfig, and its user has the certificate and the key in a file.
func writeKubeconfig(path, bootstrap, pairFile string) error {
	loaded, err := (&clientcmd.ClientConfigLoadingRules{ExplicitPath: bootstrap}).Load()
	if err != nil {
		return fmt.Errorf("read bootstrap kubeconfig %s: %w", bootstrap, err)
	}
	context, there := loaded.Contexts[loaded.CurrentContext]
	if !there || loaded.Clusters[context.Cluster] == nil {
		return fmt.Errorf("bootstrap kubeconfig %s names no cluster", bootstrap)
	}
	cluster := loaded.Clusters[context.Cluster].DeepCopy()
	cluster.LocationOfOrigin = "" // paths are absolute

	const name = "default"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = cluster
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: pairFile, ClientKey: pairFile}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: context.Namespace}
	config.CurrentContext = name
	text, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("make kubeconfig %s: %w", path, err)
	}
	if err := writeFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}
