package metrics

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"berth/internal/telemetry/stats"
)

// Stats measures the resource usage of pods.
type Stats interface {
	Read(ctx context.Context, scope stats.Scope) (*stats.Snapshot, error)
	Claims(ctx context.Context) []stats.Claim
	Logs(ctx context.Context) []stats.Log
}

// PagesConfig configures Pages.
type PagesConfig struct {
	Metrics    *Metrics
	NodeName   string
	Version    string // of berth
	Kubernetes string // the version that it stands in for, such as v1.36.3
	Stats      Stats
	// CgroupVersion is that of the hierarchy of cgroups: 1 or 2. 0: it is not shown.
	CgroupVersion int
	// Counts returns the present numbers of pods and containers.
	Counts func() Counts
	// Slots returns how many start slots are taken and free, and how many pods wait.
	Slots func() (taken, free, waiting int)
	// Volumes counts the volumes of pods. Nil: they are not counted.
	Volumes func() map[Volumes]int
	// Certificates counts the certificates of pods. Nil: pods have none.
	Certificates func() map[PodCertificates]int
	// Booted is when the machine was started. Zero: that is not known.
	Booted time.Time
	// ImageRecords counts the records of images. Nil: they are not counted.
	ImageRecords func() ImageRecords
	// Features are the feature gates. Nil: they are not shown.
	Features []Feature
	// Plugins lists the sockets of plugins. Nil: they are not shown.
	Plugins func() []Plugin
	// ProtectedMemory returns the memory that is kept for pods. Nil: memory QoS is off.
	ProtectedMemory func() ProtectedMemory
	// ClientExpiry and ServerExpiry are until when our certificates are good. Nil, or
	// a zero time: there is none.
	ClientExpiry, ServerExpiry func() time.Time
}

// Pages serves metrics.
type Pages struct {
	PagesConfig
	main prometheus.Gatherers
}

// NewPages returns the pages.
func NewPages(c PagesConfig) (*Pages, error) {
	if c.Metrics == nil || c.NodeName == "" || c.Stats == nil || c.Counts == nil || c.Slots == nil {
		return nil, errors.New("metrics: metrics, nodeName, stats, counts and slots are required")
	}
	now := prometheus.NewRegistry()
	p := &Pages{PagesConfig: c, main: prometheus.Gatherers{c.Metrics.main, now}}
	return p, now.Register(present{p})
}

// Main serves /metrics.
func (p *Pages) Main() http.Handler {
	return page(func(ctx context.Context) ([]*dto.MetricFamily, error) {
		families, err := p.main.Gather()
		families = append(families, claimFamilies(p.Stats.Claims(ctx))...)
		return append(families, logFamilies(p.Stats.Logs(ctx))...), err
	})
}

// Resource serves /metrics/resource.
func (p *Pages) Resource() http.Handler {
	return page(func(ctx context.Context) ([]*dto.MetricFamily, error) {
		s, err := p.Stats.Read(ctx, stats.Brief)
		return resourceFamilies(s, err), nil // the page itself says that it failed
	})
}

// Cadvisor serves /metrics/cadvisor.
func (p *Pages) Cadvisor() http.Handler {
	return page(func(ctx context.Context) ([]*dto.MetricFamily, error) {
		s, err := p.Stats.Read(ctx, stats.Full)
		if err != nil {
			return nil, err
		}
		return cadvisorFamilies(s), nil
	})
}

// Probes serves /metrics/probes.
func (p *Pages) Probes() http.Handler {
	return page(func(context.Context) ([]*dto.MetricFamily, error) {
		p.Metrics.probed.prune(p.Counts().UIDs)
		return p.Metrics.probes.Gather()
	})
}

// SLIs serves /metrics/slis.
func (p *Pages) SLIs() http.Handler {
	return page(func(context.Context) ([]*dto.MetricFamily, error) { return p.Metrics.checks.Gather() })
}

// pageTimeout is how long a page may take: scrapers give up after that.
const pageTimeout = 10 * time.Second

// page serves families in the format that a client asks for.
func page(gather func(context.Context) ([]*dto.MetricFamily, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		promhttp.HandlerFor(
			prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return gather(ctx) }), promhttp.HandlerOpts{},
		).ServeHTTP(w, r)
	})
}
