package cert

import (
	"context"

	certificates "k8s.io/api/certificates/v1"
	beta "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	certificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	certificatesv1beta1 "k8s.io/client-go/kubernetes/typed/certificates/v1beta1"
)

// requests is the part of a clientset that client-go's certificate code uses: the client of
// CertificateSigningRequests. A whole clientset would add five million bytes to the program.
type requests struct {
	kubernetes.Interface // nil: nothing else is called
	group                certificatesv1.CertificatesV1Interface
	report               *report
}

func (r requests) CertificatesV1() certificatesv1.CertificatesV1Interface {
	return reportingClient{r.group, r.report}
}

func (requests) CertificatesV1beta1() certificatesv1beta1.CertificatesV1beta1Interface {
	return noBeta{}
}

// reportingClient reports the requests that are created.
type reportingClient struct {
	certificatesv1.CertificatesV1Interface
	report *report
}

func (n reportingClient) CertificateSigningRequests() certificatesv1.CertificateSigningRequestInterface {
	return reportingRequests{n.CertificatesV1Interface.CertificateSigningRequests(), n.report}
}

type reportingRequests struct {
	certificatesv1.CertificateSigningRequestInterface
	report *report
}

func (n reportingRequests) Create(ctx context.Context, r *certificates.CertificateSigningRequest, o metav1.CreateOptions) (*certificates.CertificateSigningRequest, error) {
	made, err := n.CertificateSigningRequestInterface.Create(ctx, r, o)
	if err == nil {
		n.report.requested(made.Name)
	}
	return made, err
}

// noBeta is the certificates API of servers before 1.22, which client-go falls back to. No server
// that berth works with has it.
type noBeta struct {
	certificatesv1beta1.CertificatesV1beta1Interface
}

func (noBeta) CertificateSigningRequests() certificatesv1beta1.CertificateSigningRequestInterface {
	return noBetaRequests{}
}

type noBetaRequests struct {
	certificatesv1beta1.CertificateSigningRequestInterface
}

func notThere(name string) error {
	return apierrors.NewNotFound(certificates.Resource("certificatesigningrequests"), name)
}

func (noBetaRequests) Create(_ context.Context, r *beta.CertificateSigningRequest, _ metav1.CreateOptions) (*beta.CertificateSigningRequest, error) {
	return nil, notThere(r.Name)
}

func (noBetaRequests) Get(_ context.Context, name string, _ metav1.GetOptions) (*beta.CertificateSigningRequest, error) {
	return nil, notThere(name)
}

func (noBetaRequests) List(context.Context, metav1.ListOptions) (*beta.CertificateSigningRequestList, error) {
	return nil, notThere("")
}
