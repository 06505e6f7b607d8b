package probe

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"berth/internal/lib/pod"
)

func TestHTTPStatusDecides(t *testing.T) {
	port := serve(t, false, func(rw http.ResponseWriter, r *http.Request) {
		var code int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &code); err != nil {
			t.Error(err)
		}
		rw.WriteHeader(code)
	})
	for code, want := range map[int]Outcome{200: Success, 204: Success, 304: Success, 399: Success, 400: Failure, 404: Failure, 500: Failure, 503: Failure} {
		a := checkOf(t, httpGet(port, fmt.Sprint("/", code)))
		words := fmt.Sprint("statuscode: ", code)
		if want == Failure {
			words = "HTTP probe failed with " + words
		}
		wantAnswer(t, a, want, words)
		if a.warning {
			t.Errorf("%d: a warning: %q", code, a.output)
		}
	}
}

func TestHTTPRequestIsAsUsersKnowIt(t *testing.T) {
	for _, tls := range []bool{false, true} {
		port := serve(t, tls, func(rw http.ResponseWriter, r *http.Request) {
			got := fmt.Sprint(r.Method, " ", r.URL, " ", r.Host, " ", r.UserAgent(), " ", r.Header["Accept"], " ", r.Header["X-Who"], " ", r.Close)
			if want := "GET /healthz?full=1 shop.example kube-probe/1.36 [*/*] [me] true"; got != want {
				t.Errorf("asked %q, want %q", got, want)
			}
		})
		h := httpGet(0, "healthz?full=1")
		h.HTTPGet.Port = intstr.FromString("web")
		h.HTTPGet.Host = "localhost"
		h.HTTPGet.HTTPHeaders = []v1.HTTPHeader{{Name: "Host", Value: "shop.example"}, {Name: "X-Who", Value: "me"}}
		if tls {
			h.HTTPGet.Scheme = v1.URISchemeHTTPS
		}
		t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
		wantAnswer(t, checkOf(t, h, v1.ContainerPort{Name: "web", ContainerPort: port}), Success, "statuscode: 200")
	}
}

func TestHTTPRedirects(t *testing.T) {
	port := serve(t, false, func(rw http.ResponseWriter, r *http.Request) {
		var left int
		if n, _ := fmt.Sscanf(r.URL.Path, "/hops/%d", &left); n == 1 && left > 0 {
			http.Redirect(rw, r, fmt.Sprint("/hops/", left-1), http.StatusFound)
		}
		if r.URL.Path == "/away" {
			http.Redirect(rw, r, "http://elsewhere.example/login", http.StatusFound)
		}
	})
	wantAnswer(t, checkOf(t, httpGet(port, "/hops/10")), Success, "200")
	wantAnswer(t, checkOf(t, httpGet(port, "/hops/11")), Failure, "10 redirects")
	wantAnswer(t, checkOf(t, httpGet(port, "/hops/10000")), Failure, "10 redirects")

	away := checkOf(t, httpGet(port, "/away"))
	wantAnswer(t, away, Success, "Probe terminated redirects, Response body: ", "elsewhere.example")
	if !away.warning {
		t.Error("a redirect off the host is no warning")
	}
}

func TestHTTPBodyIsBounded(t *testing.T) {
	sent := make(chan struct{})
	port := serve(t, false, func(rw http.ResponseWriter, r *http.Request) {
		defer close(sent)
		for r.Context().Err() == nil {
			if _, err := rw.Write(make([]byte, 4<<10)); err != nil {
				return
			}
		}
	})
	wantAnswer(t, checkOf(t, httpGet(port, "/")), Success, "200")
	<-sent
}

func TestHTTPFailures(t *testing.T) {
	closed := closedPort(t)
	garbage := listen(t, func(c net.Conn) {
		if _, err := c.Read(make([]byte, 1<<10)); err != nil { // it waits for its turn to speak
			t.Error(err)
		}
		fmt.Fprint(c, "\x1b[31mno HTTP at all\r\n\r\n")
	})
	plain := serve(t, false, func(http.ResponseWriter, *http.Request) {})
	https := httpGet(plain, "/")
	https.HTTPGet.Scheme = v1.URISchemeHTTPS
	named := httpGet(0, "/")
	named.HTTPGet.Port = intstr.FromString("web")
	scheme := httpGet(plain, "/")
	scheme.HTTPGet.Scheme = "FTP"
	for name, tc := range map[string]struct {
		handler v1.ProbeHandler
		want    Outcome
		words   []string
	}{
		"nobody listens": {
			httpGet(closed, "/healthz?key=secret"), Failure,
			[]string{fmt.Sprintf(`Get "http://127.0.0.1:%d/healthz": dial tcp 127.0.0.1:%d: connect: connection refused`, closed, closed)},
		},
		"garbage":      {httpGet(garbage, "/"), Failure, []string{"malformed HTTP status code"}},
		"TLS to plain": {https, Failure, []string{"server gave HTTP response to HTTPS client"}},
		"unknown port": {named, Unknown, []string{`port "web" is unknown`}},
		"scheme":       {scheme, Unknown, []string{`"FTP" is neither`}},
		"path":         {httpGet(plain, "/%zz"), Unknown, []string{"is not one of a URL"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := checkOf(t, tc.handler)
			wantAnswer(t, a, tc.want, tc.words...)
			if strings.ContainsAny(a.output, "\x1b\n") || strings.Contains(a.output, "secret") {
				t.Errorf("shown: %q", a.output)
			}
		})
	}
}

func TestHTTPTimeouts(t *testing.T) {
	half := serve(t, false, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Length", "10")
		if err := http.NewResponseController(rw).Flush(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	})
	for name, tc := range map[string]struct {
		port  int32
		words []string
	}{
		"no answer":         {listen(t, mute), []string{`Get "http://127.0.0.1:`, "Client.Timeout exceeded while awaiting headers"}},
		"half of an answer": {half, []string{"statuscode: 200, but the body can't be read", "Client.Timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantAnswer(t, checkWithin(t, 1, httpGet(tc.port, "/")), Failure, tc.words...)
		})
	}
}

func TestAReadyServerIsReportedAtOnce(t *testing.T) {
	for name, hostNetwork := range map[string]bool{"in a pod": false, "on the network of the host": true} {
		t.Run(name, func(t *testing.T) {
			port := serve(t, false, func(http.ResponseWriter, *http.Request) {})
			w := newWorld(t, "")
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); w.Run(ctx) }()

			p := web("a", nil, nil, &v1.Probe{ProbeHandler: httpGet(port, "/")})
			have := has(runs("c1", time.Now()))
			if p.Spec.HostNetwork = hostNetwork; hostNetwork {
				have.Sandboxes[0].IPs = nil
			}
			w.Watch(p, have)

			select {
			case r := <-w.Readiness:
				if want := (pod.ProbeResult{UID: p.UID, ContainerID: "c1", Success: true}); r != want {
					t.Errorf("result %+v, want %+v", r, want)
				}
			case <-time.After(10 * time.Second):
				t.Error("no result")
			}
			cancel()
			<-ended
		})
	}
}

func TestARedirectOffTheHostIsASuccessWithAWarning(t *testing.T) {
	port := serve(t, false, func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "http://elsewhere.example/", http.StatusFound)
	})
	w := newWorld(t, "")
	w.start()
	w.watch(web("a", nil, nil, &v1.Probe{ProbeHandler: httpGet(port, "/"), TimeoutSeconds: 20}), "c1")
	for deadline := time.Now().Add(10 * time.Second); !ptr.Deref(w.Health("c1").Ready, false) && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	w.stopRun() // the turn ends before, with its event
	w.expectHealth("c1", "started=- ready=true dead=")
	if len(w.events) != 1 || !strings.Contains(w.events[0], "a/app Warning ProbeWarning: Readiness probe warning: Probe terminated redirects, Response body: ") {
		t.Errorf("events: %q", w.events)
	}
}
