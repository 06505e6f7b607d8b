package hook

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestHTTPSDoesNotCheckTheCertificate(t *testing.T) {
	r, log := runnerOf(t, noExec)
	w := newWeb(t, "127.0.0.1:0", true, ok)
	h := get(w.port, "/")
	h.HTTPGet.Scheme = v1.URISchemeHTTPS
	if err := r.Run(t.Context(), target(), h); err != nil {
		t.Fatal(err)
	}
	if w.request(t).TLS == nil {
		t.Error("asked without TLS")
	}
	if log.Len() > 0 {
		t.Errorf("nothing to tell, and the log says %s", log)
	}
}

func withSecrets(h *v1.LifecycleHandler) *v1.LifecycleHandler {
	h.HTTPGet.Scheme = v1.URISchemeHTTPS
	h.HTTPGet.HTTPHeaders = []v1.HTTPHeader{
		{Name: "Host", Value: "shop.example"}, {Name: "Authorization", Value: "hush"}, {Name: "Cookie", Value: "a=b"}, {Name: "X-Kept", Value: "1"},
	}
	return h
}

func wantNoSecrets(t *testing.T, req *http.Request) {
	t.Helper()
	if req.Header.Get("Authorization") != "" || req.Header.Get("Cookie") != "" || req.Header.Get("X-Kept") != "1" {
		t.Errorf("headers in the clear: %v", req.Header)
	}
}

func TestHTTPSFallsBackToHTTP(t *testing.T) {
	r, log := runnerOf(t, noExec)
	w := newWeb(t, "127.0.0.1:0", false, ok)
	var fallbacks []string
	r.fallback = func(p *v1.Pod, _ string) { fallbacks = append(fallbacks, p.Name) }

	if err := r.Run(t.Context(), target(), withSecrets(get(w.port, "/x?y=1"))); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(fallbacks, []string{"web"}) {
		t.Errorf("the fallback was reported for %q", fallbacks)
	}

	req := w.request(t)
	if req.RequestURI != "/x?y=1" || req.Host != "shop.example" {
		t.Errorf("asked %s for %s", req.Host, req.RequestURI)
	}
	wantNoSecrets(t, req)
	if !strings.Contains(log.String(), "plain HTTP") || !strings.Contains(log.String(), "shop/web") {
		t.Errorf("the log says %s", log)
	}
}

func TestHTTPSFallsBackOnce(t *testing.T) {
	r, _ := runnerOf(t, noExec)
	w := newWeb(t, "127.0.0.1:0", false, refuses)

	if err := r.Run(t.Context(), target(), withSecrets(get(w.port, "/"))); err != nil {
		t.Fatal(err)
	}
	if len(w.asked) != 1 {
		t.Errorf("asked %d times", len(w.asked))
	}
}

func TestRedirectOutOfTLSLosesTheSecrets(t *testing.T) {
	r, _ := runnerOf(t, noExec)
	plain := newWeb(t, "127.0.0.1:0", false, ok)
	w := newWeb(t, "127.0.0.1:0", true, func(rw http.ResponseWriter, req *http.Request) {
		http.Redirect(rw, req, plain.URL+"/", http.StatusFound)
	})

	if err := r.Run(t.Context(), target(), withSecrets(get(w.port, "/"))); err != nil {
		t.Fatal(err)
	}

	if w.request(t).Header.Get("Authorization") != "hush" {
		t.Error("the first request lacks its header")
	}
	wantNoSecrets(t, plain.request(t))
}
