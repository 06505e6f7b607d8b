package nodeapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"berth/internal/lib/run"
)

// TLS configures the secure port.
type TLS struct {
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	MinVersion     uint16        // 0: TLS 1.2
	Ciphers        []uint16      // of TLS 1.2; empty: Go's choice
	Curves         []tls.CurveID // empty: Go's choice
}

// Addresses are the addresses and ports to listen on. A port of 0 is left closed.
type Addresses struct {
	Address      netip.Addr
	Port         int
	ReadOnlyPort int

	HealthzAddress netip.Addr
	HealthzPort    int
}

// Listeners are the listeners of the open ports. The listener of a closed port is nil.
type Listeners struct{ Secure, ReadOnly, Healthz net.Listener }

// Listen opens the ports, or none of them.
func Listen(ctx context.Context, a Addresses) (Listeners, error) {
	var l Listeners
	for _, port := range []struct {
		to      *net.Listener
		address netip.Addr
		number  int
		setting string
	}{
		{&l.Secure, a.Address, a.Port, "port"},
		{&l.ReadOnly, a.Address, a.ReadOnlyPort, "readOnlyPort"},
		{&l.Healthz, a.HealthzAddress, a.HealthzPort, "healthzPort"},
	} {
		if port.number == 0 {
			continue
		}
		where := net.JoinHostPort(port.address.String(), strconv.Itoa(port.number))
		opened, err := (&net.ListenConfig{}).Listen(ctx, "tcp", where)
		if err != nil {
			return Listeners{}, errors.Join(fmt.Errorf("node API: %w: is another kubelet or berth running? Set another %s", err, port.setting), l.Close())
		}
		*port.to = opened
	}
	return l, nil
}

// Close closes the ports that are open.
func (l Listeners) Close() error {
	var errs []error
	for _, one := range []net.Listener{l.Secure, l.ReadOnly, l.Healthz} {
		if one != nil {
			errs = append(errs, one.Close())
		}
	}
	return errors.Join(errs...)
}

// stopTimeout is how long requests may take to end when the agent stops.
const stopTimeout = 3 * time.Second

// Serve answers on the ports until ctx ends, and closes them. It returns the error of a port
// which can't be served any more.
func (a *API) Serve(ctx context.Context, l Listeners) error {
	servers := map[net.Listener]*http.Server{}
	if l.Secure != nil {
		if a.access == nil || a.TLS.GetCertificate == nil {
			return errors.Join(errors.New("node API: a port for HTTPS needs Access and TLS: no client could be authenticated"), l.Close())
		}
		servers[tls.NewListener(newBoundedListener(l.Secure, a.Limits), a.tlsConfig())] = a.server(ctx, a.guardedMux())
	}
	if l.ReadOnly != nil {
		servers[newBoundedListener(l.ReadOnly, a.Limits)] = a.server(ctx, a.mux("readonly", readOnlyRoutes))
	}
	if l.Healthz != nil {
		servers[newBoundedListener(l.Healthz, a.Limits)] = a.server(ctx, a.mux("healthz", healthRoutes))
	}
	group := run.NewGroup(ctx, a.Log)
	failed := make(chan error, len(servers))
	for listener, s := range servers {
		group.Go("node API on "+listener.Addr().String(), func(context.Context) {
			if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("node API on %s: %w", listener.Addr(), err)
			}
		})
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	for _, s := range servers {
		if s.Shutdown(stop) != nil {
			_ = s.Close() // a client does not read its answer in time
		}
	}
	group.Stop()
	return err
}

// maxRequestsPerConnection is how many requests of one HTTP/2 connection are answered at the same time. An API server that
// has more opens another connection.
const maxRequestsPerConnection = 100

// server returns an HTTP server with the limits of the API. Over TLS it speaks HTTP/2, too. Clients ask for streams that
// have to be hijacked, such as exec, over HTTP/1.1.
func (a *API) server(ctx context.Context, h http.Handler) *http.Server {
	s := &http.Server{
		Handler:           a.bounded(h),
		ReadHeaderTimeout: a.Limits.HeaderTimeout,
		IdleTimeout:       a.Limits.IdleTimeout,
		MaxHeaderBytes:    a.Limits.HeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		// Errors of clients that do not use TLS or HTTP are no errors of the node, and may be many.
		ErrorLog:  slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug),
		Protocols: new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxRequestsPerConnection}
	return s
}

func (a *API) tlsConfig() *tls.Config {
	base := &tls.Config{
		GetCertificate:   a.TLS.GetCertificate,
		MinVersion:       max(a.TLS.MinVersion, tls.VersionTLS12),
		CipherSuites:     a.TLS.Ciphers,
		CurvePreferences: a.TLS.Curves,
		NextProtos:       []string{"h2", "http/1.1"},
		// A certificate is optional, since the client may have a token, and is verified with the request.
		ClientAuth: tls.RequestClientCert,
	}
	// Each set of CAs has a config of its own, since session keys belong to a config.
	var (
		mu      sync.Mutex
		current *tls.Config
	)
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		authorities := a.access.authorities()
		mu.Lock()
		defer mu.Unlock()
		if current == nil || current.ClientCAs != authorities {
			current = base.Clone()
			current.GetConfigForClient = nil
			current.ClientCAs = authorities // sent to clients, which choose their certificate by it
		}
		return current, nil
	}
	return base
}
