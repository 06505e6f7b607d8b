package metrics

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientgo "k8s.io/client-go/tools/metrics"
)

// requestMetrics are about requests to our own API.
type requestMetrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inflight *prometheus.GaugeVec
	streams  *prometheus.CounterVec
}

func newRequestMetrics() requestMetrics {
	labels := []string{"method", "path", "server_type", "long_running"}
	return requestMetrics{
		total:    counts("kubelet_http_requests_total", "Requests to the API of this node.", labels...),
		duration: histograms("kubelet_http_requests_duration_seconds", "Time of requests to the API of this node.", prometheus.DefBuckets, labels...),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubelet_http_inflight_requests", Help: "Requests to the API of this node that are being answered.",
		}, labels),
		streams: counts("kubelet_websocket_streaming_requests_total", "Requests for exec, attach and port-forward over WebSocket.", "subresource"),
	}
}

func (r requestMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{r.total, r.duration, r.inflight, r.streams}
}

// WebSocketRequested counts a stream over WebSocket: exec, attach or portforward.
func (m *Metrics) WebSocketRequested(subresource string) {
	m.requests.streams.WithLabelValues(subresource).Inc()
}

// Request has the labels of a request. Path must be one of a few: the pattern that matched, and
// not the path that the client sent.
type Request struct {
	Path        string
	LongRunning bool // a stream
}

// Watch counts the requests to a server (readwrite, readonly, healthz or local) on their
// way to next. about says what is counted of each.
func (m *Metrics) Watch(server string, about func(*http.Request) Request, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := about(r)
		long := "false"
		if request.LongRunning {
			long = "true"
		}
		labels := []string{method(r.Method), request.Path, server, long}
		began := time.Now()
		m.requests.total.WithLabelValues(labels...).Inc()
		inflight := m.requests.inflight.WithLabelValues(labels...)
		inflight.Inc()
		defer func() {
			inflight.Dec()
			m.requests.duration.WithLabelValues(labels...).Observe(time.Since(began).Seconds())
		}()
		next.ServeHTTP(w, r)
	})
}

// method keeps a client from making up new ones.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	default:
		return "other"
	}
}

// clientMetrics are about our own requests to the API server.
type clientMetrics struct {
	total, retries              *prometheus.CounterVec
	duration, limited, resolved *prometheus.HistogramVec
	requestBytes, responseBytes *prometheus.HistogramVec
}

func newClientMetrics() clientMetrics {
	buckets := []float64{.005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60}
	sizes := []float64{64, 256, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}
	return clientMetrics{
		retries:       counts("rest_client_request_retries_total", "Requests to the API server that were sent again.", "code", "verb", "host"),
		resolved:      histograms("rest_client_dns_resolution_duration_seconds", "Time to resolve the name of the API server.", buckets, "host"),
		requestBytes:  histograms("rest_client_request_size_bytes", "Size of requests to the API server.", sizes, "verb", "host"),
		responseBytes: histograms("rest_client_response_size_bytes", "Size of answers of the API server.", sizes, "verb", "host"),
		total:         counts("rest_client_requests_total", "Requests to the API server.", "code", "method", "host"),
		duration:      histograms("rest_client_request_duration_seconds", "Time of requests to the API server.", buckets, "verb", "host"),
		limited:       histograms("rest_client_rate_limiter_duration_seconds", "Time that requests waited for our own rate limit.", buckets, "verb", "host"),
	}
}

func (c clientMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{c.total, c.retries, c.duration, c.limited, c.resolved, c.requestBytes, c.responseBytes}
}

// ClientGo returns the options for client-go's metrics.Register, so that its requests are counted
// here.
func (m *Metrics) ClientGo() clientgo.RegisterOpts {
	return clientgo.RegisterOpts{
		RequestLatency: latency{m.client.duration}, RateLimiterLatency: latency{m.client.limited}, RequestResult: results{m.client.total},
		RequestRetry: retries{m.client.retries}, ResolverLatency: resolverLatency{m.client.resolved},
		RequestSize: sizes{m.client.requestBytes}, ResponseSize: sizes{m.client.responseBytes},
	}
}

type latency struct{ into *prometheus.HistogramVec }

// Observe implements the interface of client-go.
func (l latency) Observe(_ context.Context, verb string, u url.URL, took time.Duration) {
	l.into.WithLabelValues(verb, u.Host).Observe(took.Seconds())
}

type results struct{ into *prometheus.CounterVec }

// Increment implements the interface of client-go.
func (r results) Increment(_ context.Context, code, method, host string) {
	r.into.WithLabelValues(code, method, host).Inc()
}

type retries struct{ into *prometheus.CounterVec }

// IncrementRetry implements the interface of client-go.
func (r retries) IncrementRetry(_ context.Context, code, method, host string) {
	r.into.WithLabelValues(code, method, host).Inc()
}

type resolverLatency struct{ into *prometheus.HistogramVec }

// Observe implements the interface of client-go.
func (l resolverLatency) Observe(_ context.Context, host string, took time.Duration) {
	l.into.WithLabelValues(host).Observe(took.Seconds())
}

type sizes struct{ into *prometheus.HistogramVec }

// Observe implements the interface of client-go.
func (s sizes) Observe(_ context.Context, verb, host string, bytes float64) {
	s.into.WithLabelValues(verb, host).Observe(bytes)
}
