package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// Fault may answer a request in the place of the server, or hold it up. It says
// whether it has answered.
type Fault func(http.ResponseWriter, *http.Request) bool

// API passes the requests of one client on to an API server. It speaks TLS on both
// sides, so it needs the credentials of the client.
type API struct {
	server http.Server
	served chan struct{}
	idle   func()
	fault  atomic.Pointer[Fault]

	mu      sync.Mutex
	watches map[*watch]bool
}

// NewAPI passes what comes to listener on to the server that config leads to, as the
// user of config.
func NewAPI(listener net.Listener, certificate tls.Certificate, config *rest.Config) (*API, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	p := &API{served: make(chan struct{}), idle: client.CloseIdleConnections, watches: map[*watch]bool{}}
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	pass := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      client.Transport,
		FlushInterval:  -1, // a watch is read as it is written
		ModifyResponse: p.note,
		ErrorLog:       quiet,
	}
	p.server = http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if fault := p.fault.Load(); fault != nil && (*fault)(w, r) {
				return
			}
			pass.ServeHTTP(w, r)
		}),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          quiet,
	}
	go func() {
		defer close(p.served)
		_ = p.server.ServeTLS(listener, "", "") // it ends when the server is closed
	}()
	return p, nil
}

// Close ends everything.
func (p *API) Close() {
	p.server.Close()
	<-p.served
	p.idle()
}

// Break passes every request from now on to a fault first.
func (p *API) Break(f Fault) { p.fault.Store(&f) }

// Mend ends all faults.
func (p *API) Mend() { p.fault.Store(nil) }

// IsWatch reports whether a request asks for changes as they come.
func IsWatch(r *http.Request) bool {
	value := r.URL.Query().Get("watch")
	return value == "true" || value == "1"
}

// EndWatches ends all watches that there are, and returns how many. The client sees
// the end of the answer, or an answer that breaks off.
func (p *API) EndWatches(breakOff bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.watches {
		w.ended.Store(!breakOff)
		w.ReadCloser.Close()
	}
	return len(p.watches)
}

// note keeps the answer to a watch, so that it can be ended.
func (p *API) note(answer *http.Response) error {
	if !IsWatch(answer.Request) || answer.StatusCode != http.StatusOK {
		return nil
	}
	w := &watch{ReadCloser: answer.Body, proxy: p}
	answer.Body = w
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watches[w] = true
	return nil
}

// watch is the answer to a watch.
type watch struct {
	io.ReadCloser
	proxy *API
	ended atomic.Bool // an error is only that we closed it, to look like the end
}

// Read implements io.Reader.
func (w *watch) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && w.ended.Load() {
		err = io.EOF
	}
	return n, err
}

// Close implements io.Closer.
func (w *watch) Close() error {
	w.proxy.mu.Lock()
	delete(w.proxy.watches, w)
	w.proxy.mu.Unlock()
	return w.ReadCloser.Close()
}
