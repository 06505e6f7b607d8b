package hook

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func get(port intstr.IntOrString, path string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Port: port, Path: path, Scheme: v1.URISchemeHTTP}}
}

// web is a server that records its requests.
type web struct {
	*httptest.Server
	port  intstr.IntOrString
	asked chan *http.Request
}

// newWeb starts a server at an address. With tls it has a self-signed certificate.
func newWeb(t *testing.T, at string, tls bool, handle http.HandlerFunc) *web {
	t.Helper()
	w := &web{asked: make(chan *http.Request, 100)}
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked <- r
		handle(rw, r)
	}))
	w.Listener.Close()
	w.Listener = l
	w.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if tls {
		w.StartTLS()
	} else {
		w.Start()
	}
	t.Cleanup(w.Close)
	w.port = intstr.FromInt32(portOf(t, l.Addr().String()))
	return w
}

func ok(http.ResponseWriter, *http.Request) {}

func refuses(rw http.ResponseWriter, _ *http.Request) {
	http.Error(rw, "no", http.StatusInternalServerError)
}

// request returns the next request to the server.
func (w *web) request(t *testing.T) *http.Request {
	t.Helper()
	select {
	case r := <-w.asked:
		return r
	default:
		t.Fatal("the server was not asked")
		return nil
	}
}

func TestHTTPAsks(t *testing.T) {
	r, _ := runnerOf(t, noExec)
	w := newWeb(t, "127.0.0.1:0", false, ok)
	for path, want := range map[string]string{
		"":                 "/",
		"/":                "/",
		"ready":            "/ready",
		"/a/b?x=1&y=%20":   "/a/b?x=1&y=%20",
		"/a%2Fb":           "/a%2Fb",
		"/with space#part": "/with%20space",
		"//two":            "//two",
		"?x=http://other":  "/?x=http://other",
	} {
		t.Run(path, func(t *testing.T) {
			if err := r.Run(t.Context(), target(), get(w.port, path)); err != nil {
				t.Fatal(err)
			}
			req := w.request(t)
			if req.RequestURI != want {
				t.Errorf("asked for %s, want %s", req.RequestURI, want)
			}
			if agent := req.Header.Get("User-Agent"); agent != "kube-lifecycle/1.36" {
				t.Errorf("the agent is %q", agent)
			}
			if host := "127.0.0.1:" + w.port.String(); req.Host != host {
				t.Errorf("the host is %q, want %q", req.Host, host)
			}
			if !req.Close || req.Header.Get("Accept") != "*/*" || req.Header.Get("Accept-Encoding") != "" {
				t.Errorf("close %t, headers %v", req.Close, req.Header)
			}
		})
	}
}

func TestHTTPHeaders(t *testing.T) {
	r, _ := runnerOf(t, noExec)
	w := newWeb(t, "127.0.0.1:0", false, ok)
	h := get(w.port, "/")
	h.HTTPGet.HTTPHeaders = []v1.HTTPHeader{
		{Name: "host", Value: "shop.example"},
		{Name: "X-Many", Value: "1"},
		{Name: "x-many", Value: "2"},
		{Name: "User-Agent", Value: "mine"},
		{Name: "Accept", Value: "text/plain"},
	}

	if err := r.Run(t.Context(), target(), h); err != nil {
		t.Fatal(err)
	}

	req := w.request(t)
	if req.Host != "shop.example" {
		t.Errorf("the host is %q", req.Host)
	}
	if many := strings.Join(req.Header["X-Many"], " "); many != "1 2" {
		t.Errorf("X-Many is %q", many)
	}
	if req.Header.Get("User-Agent") != "mine" || req.Header.Get("Accept") != "text/plain" {
		t.Errorf("headers %v", req.Header)
	}
}

func TestHTTPFindsTheServer(t *testing.T) {
	r, _ := runnerOf(t, noExec)
	four, six := newWeb(t, "127.0.0.1:0", false, ok), newWeb(t, "[::1]:0", false, ok)
	for name, tc := range map[string]struct {
		w           *web
		podIP, host string
		port        intstr.IntOrString
	}{
		"port by name":   {w: four, podIP: "127.0.0.1", port: intstr.FromString("web")},
		"host":           {w: four, podIP: "192.0.2.1", host: "localhost", port: four.port},
		"IPv6 pod":       {w: six, podIP: "::1", port: six.port},
		"bracketed host": {w: six, podIP: "192.0.2.1", host: "[::1]", port: six.port},
	} {
		t.Run(name, func(t *testing.T) {
			at := target(v1.ContainerPort{Name: "web", ContainerPort: four.port.IntVal})
			at.PodIP = tc.podIP
			h := get(tc.port, "/")
			h.HTTPGet.Host = tc.host
			if err := r.Run(t.Context(), at, h); err != nil {
				t.Fatal(err)
			}
			tc.w.request(t)
		})
	}
}

func TestHTTPIgnoresTheProxy(t *testing.T) {
	r, _ := runnerOf(t, noExec)
	if r.transport.Proxy != nil {
		t.Error("requests go through the machine's proxy")
	}
}

func TestHTTPFailures(t *testing.T) {
	r, _ := runnerOf(t, noExec)
	w := newWeb(t, "127.0.0.1:0", false, func(rw http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/loop" {
			http.Redirect(rw, req, "/loop", http.StatusFound)
		}
	})
	closed := intstr.FromInt32(closedPort(t))
	header := get(w.port, "/")
	header.HTTPGet.HTTPHeaders = []v1.HTTPHeader{{Name: "X", Value: "a\nb"}}
	scheme := get(w.port, "/")
	scheme.HTTPGet.Scheme = "FTP"
	for name, tc := range map[string]struct {
		hook *v1.LifecycleHandler
		want []string
	}{
		"redirect loop":  {hook: get(w.port, "/loop"), want: []string{"more than 10 redirects"}},
		"nobody listens": {hook: get(closed, "/x?token=hush"), want: []string{"/x: dial tcp", "refused"}},
		"bad path":       {hook: get(w.port, "/%zz?token=hush"), want: []string{`path "/%zz" is not one of a URL`, "%zz"}},
		"bad header":     {hook: header, want: []string{`header field value for "X"`}},
		"bad scheme":     {hook: scheme, want: []string{`scheme "FTP" is neither HTTP nor HTTPS`}},
		"unknown port":   {hook: get(intstr.FromString("web"), "/"), want: []string{`port "web" is unknown`}},
	} {
		t.Run(name, func(t *testing.T) {
			err := r.Run(t.Context(), target(), tc.hook)
			wantError(t, err, append(tc.want, "httpGet")...)
			if strings.Contains(err.Error(), "hush") {
				t.Errorf("the query is in %q", err)
			}
			if len(err.Error()) > 1200 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// A hook tells a container something: what it answers does not matter.
func TestAnyAnswerWillDo(t *testing.T) {
	r, log := runnerOf(t, noExec)
	w := newWeb(t, "127.0.0.1:0", false, refuses)
	if err := r.Run(t.Context(), target(), get(w.port, "/x?token=hush")); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "500") || strings.Contains(log.String(), "hush") {
		t.Errorf("the log says %s", log)
	}
}

func TestHTTPRedirects(t *testing.T) {
	r, log := runnerOf(t, noExec)
	elsewhere := newWeb(t, "127.0.0.2:0", false, refuses)
	w := newWeb(t, "127.0.0.1:0", false, func(rw http.ResponseWriter, req *http.Request) {
		switch left, err := strconv.Atoi(req.URL.Query().Get("left")); {
		case req.URL.Path == "/away":
			http.Redirect(rw, req, elsewhere.URL+"/", http.StatusFound)
		case err == nil && left > 0:
			http.Redirect(rw, req, "/?left="+strconv.Itoa(left-1), http.StatusFound)
		}
	})
	t.Run("ten on the same host are followed", func(t *testing.T) {
		if err := r.Run(t.Context(), target(), get(w.port, "/?left=10")); err != nil {
			t.Fatal(err)
		}
		if n := len(w.asked); n != 11 {
			t.Errorf("asked %d times, want 11", n)
		}
	})
	t.Run("one to another host is an answer", func(t *testing.T) {
		if err := r.Run(t.Context(), target(), get(w.port, "/away")); err != nil {
			t.Fatal(err)
		}
		if len(elsewhere.asked) != 0 {
			t.Error("the other host was asked")
		}
		if !strings.Contains(log.String(), "not with success") {
			t.Errorf("the log says nothing of it: %s", log)
		}
	})
}
