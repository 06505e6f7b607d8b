package hook

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// mute accepts connections, signals each, and never answers.
func mute(t *testing.T) (intstr.IntOrString, <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted, done := make(chan struct{}, 10), make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			accepted <- struct{}{}
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return intstr.FromInt32(portOf(t, l.Addr().String())), accepted
}

func TestHTTPEndsWithItsContext(t *testing.T) {
	for _, scheme := range []v1.URIScheme{v1.URISchemeHTTP, v1.URISchemeHTTPS} {
		t.Run(string(scheme), func(t *testing.T) {
			r, _ := runnerOf(t, noExec)
			port, accepted := mute(t)
			h := get(port, "/")
			h.HTTPGet.Scheme = scheme
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- r.Run(ctx, target(), h) }()
			<-accepted

			cancel()

			err := <-ended
			wantError(t, err, "httpGet", "interrupted")
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%q is not context.Canceled", err)
			}
		})
	}
}

func TestHTTPEndsWithItsDeadline(t *testing.T) {
	r, _ := runnerOf(t, noExec)
	port, _ := mute(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()

	err := r.Run(ctx, target(), get(port, "/"))

	wantError(t, err, "httpGet", "not done in time")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%q is not context.DeadlineExceeded", err)
	}
}
