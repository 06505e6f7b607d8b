package nodeapi

import (
	"crypto/tls"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/api/nodeapi/nodeapitest"
)

// paths are one of each kind, with the right that it needs, as verb/subresource.
var paths = []struct {
	method, path string
	rights       []string // one of them is enough
	code         int      // of the answer to those who may, without a stream
	readOnly     bool
}{
	{"GET", "/healthz", []string{"get/healthz", "get/proxy"}, 200, true},
	{"GET", "/healthz/syncloop", []string{"get/healthz", "get/proxy"}, 200, true},
	{"GET", "/pods", []string{"get/pods", "get/proxy"}, 200, true},
	{"GET", "/pods/", []string{"get/pods", "get/proxy"}, 200, true},
	{"GET", "/stats/summary", []string{"get/stats"}, 200, true},
	{"POST", "/stats/summary", []string{"create/stats"}, 200, true},
	{"GET", "/metrics", []string{"get/metrics"}, 200, true},
	{"GET", "/metrics/cadvisor", []string{"get/metrics"}, 200, true},
	{"GET", "/metrics/resource", []string{"get/metrics"}, 200, true},
	{"GET", "/metrics/probes", []string{"get/metrics"}, 200, true},
	{"GET", "/metrics/slis", []string{"get/metrics"}, 200, true},
	{"POST", "/run/default/web/app?cmd=ls", []string{"create/proxy"}, 200, false},
	{"POST", "/run/default/web/uid-1/app?cmd=ls", []string{"create/proxy"}, 200, false},
	{"GET", "/exec/default/web/app?command=cat&output=1", []string{"create/proxy"}, 400, false},
	{"POST", "/exec/default/web/app?command=cat&output=1", []string{"create/proxy"}, 400, false},
	{"GET", "/exec/default/web/uid-1/app?command=cat&output=1", []string{"create/proxy"}, 400, false},
	{"GET", "/attach/default/web/app?output=1", []string{"create/proxy"}, 400, false},
	{"POST", "/attach/default/web/uid-1/app?output=1", []string{"create/proxy"}, 400, false},
	{"GET", "/portForward/default/web", []string{"create/proxy"}, 400, false},
	{"POST", "/portForward/default/web/uid-1", []string{"create/proxy"}, 400, false},
	{"GET", "/containerLogs/default/web/app", []string{"get/proxy"}, 200, false},
	{"GET", "/runningpods", []string{"get/pods", "get/proxy"}, 200, false},
	{"GET", "/runningpods/", []string{"get/pods", "get/proxy"}, 200, false},
	{"GET", "/configz", []string{"get/configz", "get/proxy"}, 200, false},
	{"POST", "/checkpoint/default/web/app", []string{"create/checkpoint"}, 200, false},
	{"GET", "/logs/", []string{"get/log"}, 200, false},
	{"GET", "/logs/c1", []string{"get/log"}, 200, false},
	{"GET", "/debug/pprof/cmdline", []string{"get/proxy"}, 200, false},
	{"PUT", "/debug/flags/v", []string{"update/proxy"}, 400, false},
	{"GET", "/flagz", []string{"get/configz"}, 200, false},
	{"GET", "/statusz", []string{"get/statusz"}, 200, false},
	{"GET", "/no/such/path", []string{"get/proxy"}, 404, false},
	{"DELETE", "/pods", []string{"delete/pods", "delete/proxy"}, 405, false},
}

// allRights lists the rights of all routes.
var allRights = func() []string {
	var out []string
	for _, verb := range []string{"get", "create", "update", "patch", "delete"} {
		for _, sub := range []string{"pods", "healthz", "configz", "stats", "metrics", "log", "checkpoint", "statusz", "proxy"} {
			out = append(out, verb+"/"+sub)
		}
	}
	return out
}()

func TestEveryPathNeedsAuthorization(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Limits.Reviews = 1000 })
	w.writeLog("hello")
	nobody, stranger := w.client(""), w.client("stranger", "some-group")
	foreign := &http.Client{Transport: foreignTransport(t)}
	for _, p := range paths {
		t.Run(p.method+" "+p.path, func(t *testing.T) {
			for who, refused := range map[string]func() (int, string){
				"nobody":                     func() (int, string) { return ask(t, nobody, p.method, w.url+p.path) },
				"a token of nobody":          func() (int, string) { return ask(t, nobody, p.method, w.url+p.path, "Authorization", "Bearer wrong") },
				"a certificate of others":    func() (int, string) { return ask(t, foreign, p.method, w.url+p.path) },
				"a password":                 func() (int, string) { return ask(t, nobody, p.method, w.url+p.path, "Authorization", "Basic YTpi") },
				"who says to be somebody":    func() (int, string) { return ask(t, nobody, p.method, w.url+p.path, "X-Remote-User", theUser) },
				"a token that is not a word": func() (int, string) { return ask(t, nobody, p.method, w.url+p.path, "Authorization", "Bearer ") },
			} {
				if code, body := refused(); code != http.StatusUnauthorized || body != "Unauthorized\n" {
					t.Errorf("%s gets %d %q", who, code, body)
				}
			}
			if code, body := ask(t, stranger, p.method, w.url+p.path); code != http.StatusForbidden || !strings.Contains(body, "user=stranger, verb="+strings.Split(p.rights[0], "/")[0]) {
				t.Errorf("a stranger gets %d %q", code, body)
			}
			// All rights but those that are needed are no help.
			others := slices.DeleteFunc(slices.Clone(allRights), func(r string) bool { return slices.Contains(p.rights, r) })
			w.allow("all-but "+p.method+p.path, others...)
			if code, _ := ask(t, w.client("all-but "+p.method+p.path), p.method, w.url+p.path); code != http.StatusForbidden {
				t.Errorf("with all other rights: %d", code)
			}
			for _, right := range p.rights {
				w.allow("only "+right, right)
				if code, body := ask(t, w.client("only "+right), p.method, w.url+p.path); code != p.code {
					t.Errorf("with %s: %d %q, want %d", right, code, body, p.code)
				}
			}
			// The read-only port has only the pages of p.readOnly.
			code, _ := ask(t, http.DefaultClient, p.method, w.plain+p.path)
			hidden := code == http.StatusNotFound || code == http.StatusMethodNotAllowed
			if p.readOnly && code != p.code || !p.readOnly && !hidden {
				t.Errorf("the port for everybody answers %d", code)
			}
		})
	}
}

// allow gives a user rights.
func (w *world) allow(user string, rights ...string) { w.cluster.Allow(user, rights...) }

func foreignTransport(t *testing.T) *http.Transport {
	t.Helper()
	other := &world{t: t, ca: nodeapitest.NewAuthority(t, "others")}
	// Its CA is not among those that the server asks for: the certificate is sent all the same.
	transport := other.transport(theUser, "system:masters")
	cert := transport.TLSClientConfig.Certificates[0]
	transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	return transport
}

func TestWaysOfWritingAPathLeadNowhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.allow("reader", "get/pods", "get/metrics", "get/healthz", "get/log")
	client := w.client("reader")
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, path := range []string{
		"/pods/../configz", "/metrics/../debug/pprof/cmdline", "//configz", "/healthz/../configz", "/pods/%2e%2e/configz",
		"/logs/../configz", "/metrics/%2e%2e/configz", "/pods/..;/configz", "/CONFIGZ", "/configz/", "/metrics/cadvisor/../../configz",
	} {
		code, body := ask(t, client, http.MethodGet, w.url+path)
		if code == http.StatusOK || strings.Contains(body, "KubeletConfiguration") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

func TestAnswersOfTheClusterAreRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.allow("reader", "get/pods")
	client := w.client("")
	for range 5 {
		if code, body := ask(t, client, http.MethodGet, w.url+"/pods", "Authorization", "Bearer "+theToken); code != http.StatusOK {
			t.Fatal(code, body)
		}
		if code, _ := ask(t, client, http.MethodGet, w.url+"/configz", "Authorization", "bearer "+theToken); code != http.StatusForbidden {
			t.Fatal(code)
		}
		if code, _ := ask(t, client, http.MethodGet, w.url+"/pods", "Authorization", "Bearer wrong"); code != http.StatusUnauthorized {
			t.Fatal(code)
		}
	}
	tokens, reviews := w.cluster.Reviewed()
	if tokens != 2 || len(reviews) != 3 { // pods; configz, proxy
		t.Errorf("the cluster was asked %d times for tokens and %d times for rights", tokens, len(reviews))
	}
	for _, spec := range reviews {
		a := spec.ResourceAttributes
		if spec.User != "reader" || !slices.Equal(spec.Groups, []string{"g", groupAuthenticated}) || a.Resource != "nodes" || a.Name != "one" || a.Version != "v1" {
			t.Errorf("the cluster was asked %+v %+v", spec, a)
		}
	}
}

func TestTheClusterIsNotAskedTooOften(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	client := w.client("")
	const tries = 3 * defaultReviews * reviewBurst
	refused := 0
	for i := range tries {
		if code, _ := ask(t, client, http.MethodGet, w.url+"/pods", "Authorization", "Bearer wrong-"+strings.Repeat("x", i)); code == http.StatusTooManyRequests {
			refused++
		}
	}
	if tokens, _ := w.cluster.Reviewed(); tokens == tries || refused == 0 {
		t.Errorf("%d guesses led to %d questions", tries, tokens)
	}
	// Who shows a certificate, or is remembered, does not wait.
	w.cluster.Stop()
	if code, _ := ask(t, w.client(""), http.MethodGet, w.url+"/pods", "Authorization", "Bearer wrong-"); code != http.StatusUnauthorized {
		t.Errorf("a remembered token gets %d", code)
	}
}

func TestWithoutReviewsRequestsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.cluster.Stop()
	if code, body := ask(t, w.client(theUser), http.MethodGet, w.url+"/pods"); code != http.StatusInternalServerError || !strings.HasPrefix(body, "Authorization error (user="+theUser) {
		t.Errorf("a certificate: %d %q", code, body)
	}
	if code, _ := ask(t, w.client(""), http.MethodGet, w.url+"/pods", "Authorization", "Bearer "+theToken); code != http.StatusUnauthorized {
		t.Errorf("a token: %d", code)
	}
}

func TestAClientWithoutCredentialsIsAnonymous(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Access.Anonymous = true })
	w.allow(anonymousUser, "get/healthz")
	client := w.client("")
	for _, test := range []struct {
		path, token string
		code        int
	}{{"/healthz", "", 200}, {"/pods", "", 403}, {"/healthz", "Bearer wrong", 401}} {
		if code, _ := ask(t, client, http.MethodGet, w.url+test.path, "Authorization", test.token); code != test.code {
			t.Errorf("%s with token %q: %d", test.path, test.token, code)
		}
	}
	if code, _ := ask(t, &http.Client{Transport: foreignTransport(t)}, http.MethodGet, w.url+"/healthz"); code != http.StatusUnauthorized {
		t.Errorf("a certificate that is not good: %d", code)
	}
}

func TestTheAuthorityOfClientsIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	before := w.client(theUser)
	w.ca = nodeapitest.NewAuthority(t, "next")
	after := w.client(theUser)
	must(t, os.WriteFile(w.caFile+".new", w.ca.PEM, 0o600))
	must(t, os.Rename(w.caFile+".new", w.caFile))

	await(t, "the new authority counts", func() bool {
		after.CloseIdleConnections()
		code, _ := ask(t, after, http.MethodGet, w.url+"/pods")
		return code == http.StatusOK
	})
	before.CloseIdleConnections()
	if code, _ := ask(t, before, http.MethodGet, w.url+"/pods"); code != http.StatusUnauthorized {
		t.Errorf("a certificate of the old one gets %d", code)
	}
	// A broken file changes nothing.
	must(t, os.WriteFile(w.caFile, []byte("no certificates"), 0o600))
	w.api.access.clients.mu.Lock()
	w.api.access.clients.checkedAt = time.Time{}
	w.api.access.clients.mu.Unlock()
	if code, _ := ask(t, after, http.MethodGet, w.url+"/pods"); code != http.StatusOK {
		t.Errorf("with a broken file, a good certificate gets %d", code)
	}
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after 10s it is not so that %s", what)
		}
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	transport := w.transport(theUser)
	transport.TLSClientConfig.MinVersion, transport.TLSClientConfig.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := (&http.Client{Transport: transport}).Get(w.url + "/healthz"); err == nil || !strings.Contains(err.Error(), "protocol version") { // there is no answer
		t.Errorf("got %v", err)
	}
}

func TestAPortIsNotOpenedForEverybody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.api.Config
	c.Access = Access{}
	open, err := New(c)
	must(t, err)
	if err := open.Serve(t.Context(), Listeners{Secure: listen(t)}); err == nil {
		t.Error("it was served")
	}
	c.Access = Access{ClientCA: "/no/such/file"}
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "clientCAFile") {
		t.Errorf("a CA that is not there: %v", err)
	}
}
