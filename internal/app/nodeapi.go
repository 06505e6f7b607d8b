package app

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api/nodeapi"
	"berth/internal/cluster/cert"
	"berth/internal/config"
	"berth/internal/core/observe"
	"berth/internal/lib/logging"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/runtime/cri"
	"berth/internal/telemetry/metrics"
)

// systemLogs is what the node shows of the machine's own logs.
const systemLogs = "/var/log"

// answering is the API of this node, and the certificate that it shows.
type answering struct {
	*nodeapi.API
	serving *cert.Serving // nil: no port needs one
}

// newAnswering makes the API with which this node answers others.
func newAnswering(c *config.Config, n *node, joined *cluster, client *cri.Client, logs *logging.Logger) (*answering, error) {
	log := logs.Logger
	a := &answering{}
	settings := nodeapi.Config{
		Node: c.NodeName, Version: c.Version, Started: time.Now(),
		Pods: n.agent, Runtime: streamingRuntime{client, n.observer}, Logs: containerLogs{n.endings()},
		SandboxEnded:  n.endings().ofSandbox,
		Configz:       c.Kubelet(),
		Flags:         c.Given,
		CheckpointDir: filepath.Join(c.RootDir, "checkpoints"), SystemLogDir: systemLogs,
		Enabled:    nodeapi.Enabled{Debugging: c.API.Debugging, SystemLogs: c.API.SystemLogs, Profiling: c.API.Profiling, DebugFlags: c.API.DebugFlags},
		StreamIdle: c.API.StreamIdle,
		Stats:      n.measured.stats, Metrics: n.measured.handlers(),
		Access: nodeapi.Access{
			ClientCA: c.API.ClientCA, Anonymous: c.API.Anonymous,
			TokenTTL: c.API.TokenTTL, AllowedTTL: c.API.AllowedTTL, DeniedTTL: c.API.DeniedTTL,
		},
		SetVerbosity: logs.SetVerbosity,
		Limits:       apiLimits(c.API.Limits),
		Checks: []nodeapi.Check{
			{Name: "log", Err: func(context.Context) error { return n.checked("log", logs.Output.Check(time.Now())) }},
			{Name: "syncloop", Err: n.loopAlive},
		},
		Count: func(server, path string, stream bool, next http.Handler) http.Handler {
			request := metrics.Request{Path: path, LongRunning: stream}
			return n.measured.counts.Watch(server, func(*http.Request) metrics.Request { return request }, next)
		},
		Log: log,
	}
	if joined != nil {
		if c.API.Tokens {
			settings.Access.Tokens = joined.clients.General.AuthenticationV1().TokenReviews()
		}
		if !c.API.AlwaysAllow {
			settings.Access.Reviews = joined.clients.General.AuthorizationV1().SubjectAccessReviews()
		}
	}
	if c.API.Port != 0 {
		serving := cert.ServingConfig{
			Node: c.NodeName, CertDir: c.Cluster.CertDir, CertFile: c.Cluster.TLSCert, KeyFile: c.Cluster.TLSKey,
			Addresses: func() []v1.NodeAddress { return nil }, State: n.state, Log: log,
		}
		if joined != nil {
			serving.Bootstrap, serving.CSRs = c.Cluster.ServingBootstrap, joined.clients.General.CertificatesV1()
			serving.Addresses = func() []v1.NodeAddress {
				if n := joined.node.Node(); n != nil {
					return n.Status.Addresses
				}
				return nil
			}
		}
		var err error
		if a.serving, err = cert.NewServing(serving); err != nil {
			return nil, err
		}
		settings.TLS = nodeapi.TLS{GetCertificate: a.serving.GetCertificate, MinVersion: c.API.MinTLS, Ciphers: c.API.Ciphers, Curves: c.API.Curves}
	}
	a.tellExpiry(n.measured.pages, joined)
	var err error
	a.API, err = nodeapi.New(settings)
	return a, err
}

// tellExpiry has the metrics say for how long our certificates are good.
func (a *answering) tellExpiry(pages *metrics.Pages, joined *cluster) {
	until := func(c *tls.Certificate) time.Time {
		if c == nil || c.Leaf == nil {
			return time.Time{}
		}
		return c.Leaf.NotAfter
	}
	if joined != nil {
		pages.ClientExpiry = func() time.Time { return until(joined.shows.certificate()) }
	}
	if serving := a.serving; serving != nil {
		pages.ServerExpiry = func() time.Time {
			c, err := serving.GetCertificate(nil)
			if err != nil { // there is none yet
				return time.Time{}
			}
			return until(c)
		}
	}
}

// loopPatience is how long the sync loop, which never blocks, may take to answer.
const loopPatience = 10 * time.Second

// loopAlive tells whether the sync loop goes round.
func (n *node) loopAlive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loopPatience)
	defer cancel()
	return n.checked("syncloop", n.agent.Alive(ctx))
}

// checked counts what came of a check.
func (n *node) checked(check string, err error) error {
	n.measured.counts.Checked(check, err)
	return err
}

func apiLimits(l config.APILimits) nodeapi.Limits {
	return nodeapi.Limits{
		Streams: l.Streams, StreamsPerUser: l.StreamsPerUser,
		Connections: l.Connections, ConnectionsPerIP: l.ConnectionsPerAddress, Reviews: l.ReviewsPerSecond,
		HeaderBytes: l.HeaderBytes, BodyBytes: l.BodyBytes,
		HeaderTimeout: l.RequestTimeout, AnswerTimeout: l.AnswerTimeout, IdleTimeout: l.IdleTimeout,
	}
}

// apiPorts are those on which the node answers.
func apiPorts(c *config.Config) nodeapi.Addresses {
	return nodeapi.Addresses{
		Address: c.API.Address, Port: c.API.Port, ReadOnlyPort: c.API.ReadOnlyPort,
		HealthzAddress: c.API.HealthzAddress, HealthzPort: c.API.HealthzPort,
	}
}

// start answers on the ports.
func (a *answering) start(group *run.Group, ports nodeapi.Listeners, fail func(error)) {
	if a.serving != nil {
		group.Go("serving certificate", a.serving.Run)
	}
	group.Go("node API", func(ctx context.Context) {
		if err := errors.Join(a.Serve(ctx, ports), a.Close()); err != nil {
			fail(err)
		}
	})
}

// streamingRuntime is the runtime as the API of the node wants it: for users who wait.
type streamingRuntime struct {
	*cri.Client
	observer *observe.Observer
}

func (r streamingRuntime) Observe(ctx context.Context, uid pod.UID) (pod.Observed, error) {
	return forUser(ctx, func(ctx context.Context) (pod.Observed, error) { return r.observer.Get(ctx, uid, time.Time{}) })
}

func (r streamingRuntime) All(ctx context.Context) (map[pod.UID]*pod.Observed, error) {
	return forUser(ctx, r.List)
}

func (r streamingRuntime) ExecURL(ctx context.Context, id string, command []string, s cri.Streams) (string, error) {
	return forUser(ctx, func(ctx context.Context) (string, error) { return r.Client.ExecURL(ctx, id, command, s) })
}

func (r streamingRuntime) AttachURL(ctx context.Context, id string, s cri.Streams) (string, error) {
	return forUser(ctx, func(ctx context.Context) (string, error) { return r.Client.AttachURL(ctx, id, s) })
}

func (r streamingRuntime) PortForwardURL(ctx context.Context, sandboxID string, ports ...int32) (string, error) {
	return forUser(ctx, func(ctx context.Context) (string, error) { return r.Client.PortForwardURL(ctx, sandboxID, ports...) })
}
