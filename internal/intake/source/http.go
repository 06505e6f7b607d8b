package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth/internal/lib/pod"
	"berth/internal/lib/secret"
)

// httpTimeout is how long one request may take.
const httpTimeout = 10 * time.Second

// HTTPConfig says where the manifests are.
type HTTPConfig struct {
	URL      secret.URL
	Header   secret.Header // sent with every request, to that host only
	Node     string        // the name of this node
	Interval time.Duration // between two requests
	State    string        // the file that keeps the last good objects; empty for none
	Log      *slog.Logger

	// Objects is called with the objects that pods may refer to, as in FileConfig.
	Objects func(ctx context.Context, objects []runtime.Object)
	// Complete completes a pod, as in FileConfig.
	Complete func(*v1.Pod) *v1.Pod
}

// HTTP is a URL that answers with a Pod, a list or several documents.
type HTTP struct {
	HTTPConfig
	in     intake
	origin string // the URL as users may see it: without passwords and queries
	client *http.Client
}

// NewHTTP checks the configuration.
func NewHTTP(c HTTPConfig) (*HTTP, error) {
	err := checkNode(c.Node)
	u, parseErr := url.Parse(c.URL.Reveal())
	switch {
	case parseErr != nil:
		err = errors.Join(err, secret.Clean(parseErr, c.URL, c.Header))
	case (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		err = errors.Join(err, fmt.Errorf("the URL %q must begin with http:// or https:// and name a host", c.URL))
	}
	if c.Interval <= 0 {
		err = errors.Join(err, fmt.Errorf("asking every %s is not possible", c.Interval))
	}
	if c.Log == nil {
		err = errors.Join(err, errors.New("there is no log"))
	}
	if err != nil {
		return nil, fmt.Errorf("make the source of a URL: %w", err)
	}
	c.Node = strings.ToLower(c.Node)
	h := &HTTP{HTTPConfig: c, in: intake{node: c.Node, source: pod.SourceHTTP}, origin: c.URL.Origin()}
	h.client = &http.Client{
		Timeout: httpTimeout,
		// The machine's proxy settings are not for this: a proxy would get to see
		// the manifests and the headers.
		Transport:     &http.Transport{Proxy: nil, ForceAttemptHTTP2: true, MaxIdleConns: 1},
		CheckRedirect: h.mayFollow,
	}
	return h, nil
}

// mayFollow refuses redirects that would send the headers to another host.
func (h *HTTP) mayFollow(next *http.Request, before []*http.Request) error {
	first := before[0]
	next.Header.Del("Referer") // it would show the query
	if len(before) > 5 {
		return errors.New("too many redirects")
	}
	hasSecrets := len(h.Header.Reveal()) > 0 || first.URL.User != nil
	elsewhere := next.URL.Host != first.URL.Host || next.URL.Scheme != first.URL.Scheme
	if hasSecrets && elsewhere {
		return fmt.Errorf("it redirects to another host (%s), which must not get the headers: use that URL instead", next.URL.Host)
	}
	return nil
}

// Run sends snapshots until the context ends.
func (h *HTTP) Run(ctx context.Context, out chan<- pod.Snapshot) {
	defer h.client.CloseIdleConnections()
	l := &httpLoop{HTTP: h, send: sender{out: out, objects: h.Objects, complete: h.Complete}, store: lastGood{path: h.State, in: h.in}}
	if !l.restore(ctx) {
		return
	}
	ticker := time.NewTicker(h.Interval)
	defer ticker.Stop()
	for {
		l.poll(ctx)
		if ctx.Err() != nil || !l.report(ctx) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// httpLoop is the state of a running HTTP.
type httpLoop struct {
	*HTTP
	send  sender
	store lastGood

	polled   bool // a first request was made
	ready    bool // the URL answered with a manifest at least once
	unsaved  bool // the accepted objects may differ from the state file
	sum      [sha256.Size]byte
	accepted []acceptedObject // in force
	refused  []pod.Refusal
	failing  string // the kind of failure that lasts, see fail

	storeFault fault
}

func (l *httpLoop) restore(ctx context.Context) bool {
	m := l.store.load(l.Log)
	l.accepted, l.refused = m.accepted[l.origin], m.refused[l.origin]
	return l.report(ctx)
}

// poll fetches the manifest and ingests it if it changed.
func (l *httpLoop) poll(ctx context.Context) {
	data, kind, err := l.fetch(ctx)
	l.polled = true
	if err != nil {
		l.fail(kind, err)
		return
	}
	sum := sha256.Sum256(data)
	if l.ready && l.failing == "" && l.sum == sum {
		return
	}
	l.failing = ""
	l.sum, l.unsaved = sum, true
	good, problems := l.in.read(l.origin, data, l.accepted)
	l.accepted, l.refused = l.in.keep(l.origin, good, problems, l.accepted)
	// An answer with nothing good in it says nothing about what should run.
	l.ready = l.ready || len(problems) == 0 || len(good) > 0
}

// fail records a failed request as a refusal. The message of a failure may differ each
// time (it names ports, for one), so the first is kept as long as the kind is the same.
func (l *httpLoop) fail(kind string, err error) {
	if l.failing == kind {
		return
	}
	l.failing = kind
	l.refused = l.in.refuseAll(l.origin, err.Error(), l.accepted)
}

// fetch returns the body of the answer, or an error and the kind of the failure.
func (h *HTTP) fetch(ctx context.Context) (data []byte, kind string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL.Reveal(), nil)
	if err != nil {
		return nil, "request", secret.Clean(err, h.URL, h.Header)
	}
	for name, values := range h.Header.Reveal() {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	response, err := h.client.Do(request)
	if err != nil {
		return nil, "request", fmt.Errorf("ask for manifests: %w", secret.Clean(err, h.URL, h.Header))
	}
	defer func() { _ = response.Body.Close() }() // a failure was returned by the read
	if response.StatusCode != http.StatusOK {
		return nil, response.Status, fmt.Errorf("ask for manifests: the server answers %q", response.Status)
	}
	data, err = io.ReadAll(io.LimitReader(response.Body, MaxManifest+1))
	if err != nil {
		return nil, "body", fmt.Errorf("read manifests: %w", secret.Clean(err, h.URL, h.Header))
	}
	if len(data) > MaxManifest {
		return nil, "size", tooLarge("the answer")
	}
	return data, "", nil
}

// report saves the accepted objects, and then sends a snapshot if it differs from the
// last one. Until the URL has answered once, the snapshot is a Restore: it is not known
// yet which pods should run.
func (l *httpLoop) report(ctx context.Context) bool {
	c := l.in.collect([]manifests{{l.origin, l.accepted, l.refused}})
	s := pod.Snapshot{Source: pod.SourceHTTP, Op: pod.Restore, Pods: c.pods, Refused: c.refused, Unreadable: l.polled && !l.ready}
	if l.ready {
		s.Op = pod.Set
		l.remember()
	} else if len(s.Pods) == 0 && len(s.Refused) == 0 {
		l.send.sendObjects(ctx, c.objects)
		return true
	}
	return l.send.send(ctx, s, c.objects)
}

// remember writes the accepted objects to the state file, if they changed.
func (l *httpLoop) remember() {
	if !l.unsaved {
		return
	}
	err := l.store.save(memory{accepted: map[string][]acceptedObject{l.origin: l.accepted}})
	if l.unsaved = err != nil; l.unsaved {
		l.storeFault.begin(l.Log, "the last good pods are not remembered over a restart", err)
	} else {
		l.storeFault.end(l.Log, "the last good pods are remembered again")
	}
}
