package podcert

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	certificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"
)

// restRequests returns the client of a server, which speaks the agent's binary encoding if it may.
func restRequests(t *testing.T, handler http.HandlerFunc) RESTRequests {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	c, err := certificatesv1.NewForConfig(&rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{
		ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return RESTRequests{c.RESTClient()}
}

func TestRequestsOnTheWire(t *testing.T) {
	var asked []string
	requests := restRequests(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.RequestURI())
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		switch {
		case r.Method == http.MethodPost:
			var got certificatesv1beta1.PodCertificateRequest
			if err := json.Unmarshal(body, &got); err != nil || got.APIVersion != "certificates.k8s.io/v1beta1" || got.Kind != "PodCertificateRequest" || got.Spec.PodName != "web" {
				t.Errorf("%s: %v", body, err)
			}
			_, _ = w.Write(body)
		case r.URL.Query().Get("watch") != "":
			_, _ = io.WriteString(w, `{"type":"ADDED","object":{"apiVersion":"certificates.k8s.io/v1beta1","kind":"PodCertificateRequest","metadata":{"name":"req-1"}}}`)
		default:
			_, _ = io.WriteString(w, `{"apiVersion":"certificates.k8s.io/v1beta1","kind":"PodCertificateRequestList","items":[{"metadata":{"name":"req-1"}}]}`)
		}
	})
	if err := requests.Create(t.Context(), newRequest(testPod(), projection(), accountOf(), nodeOf(), nil)); err != nil {
		t.Fatal(err)
	}
	of := metav1.ListOptions{FieldSelector: ofNode("box")}
	if list, err := requests.List(t.Context(), of); err != nil || len(list.Items) != 1 || list.Items[0].Name != "req-1" {
		t.Error(list, err)
	}
	w, err := requests.Watch(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); e.Object.(*certificatesv1beta1.PodCertificateRequest).Name != "req-1" { //nolint:errcheck // it panics, and so fails
		t.Error(e)
	}
	want := []string{
		"POST /apis/certificates.k8s.io/v1beta1/namespaces/shop/podcertificaterequests",
		"GET /apis/certificates.k8s.io/v1beta1/podcertificaterequests?fieldSelector=spec.nodeName%3Dbox",
		"GET /apis/certificates.k8s.io/v1beta1/podcertificaterequests?fieldSelector=spec.nodeName%3Dbox&watch=true",
	}
	if got := strings.Join(asked, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("asked for:\n%s", got)
	}
}

func TestAServerThatDoesNotServeRequests(t *testing.T) {
	requests := restRequests(t, http.NotFound)
	err := requests.Create(t.Context(), newRequest(testPod(), projection(), accountOf(), nodeOf(), nil))
	if got := explainRefusal(t.Context(), requests, "box", err); !errors.Is(got, errNotServed) {
		t.Errorf("%v: %v", err, got)
	}
	// A namespace that is gone is something else.
	served := restRequests(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		_, _ = io.WriteString(w, `{"apiVersion":"certificates.k8s.io/v1beta1","kind":"PodCertificateRequestList"}`)
	})
	if got := explainRefusal(t.Context(), served, "box", err); errors.Is(got, errNotServed) || !apierrors.IsNotFound(got) {
		t.Error(got)
	}
}
