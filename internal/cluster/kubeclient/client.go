package kubeclient

import (
	"net/http"

	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	certificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	nodev1 "k8s.io/client-go/kubernetes/typed/node/v1"
	storagev1 "k8s.io/client-go/kubernetes/typed/storage/v1"
	"k8s.io/client-go/rest"
)

// Client has the clients of the API groups that a node needs. client-go's clientset has all groups,
// and would add millions of bytes to the program.
type Client struct {
	core           *corev1.CoreV1Client
	coordination   *coordinationv1.CoordinationV1Client
	node           *nodev1.NodeV1Client
	storage        *storagev1.StorageV1Client
	certificates   *certificatesv1.CertificatesV1Client
	authentication *authenticationv1.AuthenticationV1Client
	authorization  *authorizationv1.AuthorizationV1Client
}

func newClient(config *rest.Config, over *http.Client) (*Client, error) {
	var (
		c   Client
		err error
	)
	if c.core, err = corev1.NewForConfigAndClient(config, over); err != nil {
		return nil, err
	}
	if c.coordination, err = coordinationv1.NewForConfigAndClient(config, over); err != nil {
		return nil, err
	}
	if c.node, err = nodev1.NewForConfigAndClient(config, over); err != nil {
		return nil, err
	}
	if c.storage, err = storagev1.NewForConfigAndClient(config, over); err != nil {
		return nil, err
	}
	if c.certificates, err = certificatesv1.NewForConfigAndClient(config, over); err != nil {
		return nil, err
	}
	if c.authentication, err = authenticationv1.NewForConfigAndClient(config, over); err != nil {
		return nil, err
	}
	if c.authorization, err = authorizationv1.NewForConfigAndClient(config, over); err != nil {
		return nil, err
	}
	return &c, nil
}

// CoreV1 is the group of pods, nodes and events.
func (c *Client) CoreV1() corev1.CoreV1Interface { return c.core }

// CoordinationV1 is the group of leases.
func (c *Client) CoordinationV1() coordinationv1.CoordinationV1Interface { return c.coordination }

// NodeV1 is the group of runtime classes.
func (c *Client) NodeV1() nodev1.NodeV1Interface { return c.node }

// StorageV1 is the group of CSI nodes, CSI drivers and volume attachments.
func (c *Client) StorageV1() storagev1.StorageV1Interface { return c.storage }

// CertificatesV1 is the group of certificate signing requests.
func (c *Client) CertificatesV1() certificatesv1.CertificatesV1Interface { return c.certificates }

// AuthenticationV1 is the group of token reviews.
func (c *Client) AuthenticationV1() authenticationv1.AuthenticationV1Interface {
	return c.authentication
}

// AuthorizationV1 is the group of access reviews.
func (c *Client) AuthorizationV1() authorizationv1.AuthorizationV1Interface { return c.authorization }
