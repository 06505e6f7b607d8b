package app

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os/exec"
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

// systemLogs is the directory of the machine's own logs, which the node API can serve.
const systemLogs = "/var/log"

// nodeAPIServer is the API of this node, and the certificate that it serves with.
type nodeAPIServer struct {
	*nodeapi.API
	serving *cert.Serving // nil: no port needs a certificate
}

// newServingCert makes the serving certificate of the node. It returns nil if no port needs one.
func newServingCert(d *deps) (*cert.Serving, error) {
	c := d.config
	if c.API.Port == 0 {
		return nil, nil
	}
	settings := cert.ServingConfig{
		Node: c.NodeName, CertDir: c.Cluster.CertDir, CertFile: c.Cluster.TLSCert, KeyFile: c.Cluster.TLSKey,
		Addresses: func() []v1.NodeAddress { return nil }, State: d.state.Keeper, Log: d.log,
		Failed: d.telemetry.Metrics.ServerRenewFailed, Rotated: d.telemetry.Metrics.ServerRotated,
	}
	if joined := d.cluster; joined != nil {
		settings.Bootstrap, settings.CSRs = c.Cluster.ServingBootstrap, joined.clients.General.CertificatesV1()
		settings.Addresses = func() []v1.NodeAddress {
			if n := joined.node.Node(); n != nil {
				return n.Status.Addresses
			}
			return nil
		}
	}
	return cert.NewServing(settings)
}

// newCertificateExpiry reads the expiry of the client certificate and of the serving certificate.
// Either may be nil.
func newCertificateExpiry(joined *cluster, serving *cert.Serving) certificateExpiry {
	until := func(c *tls.Certificate) time.Time {
		if c == nil || c.Leaf == nil {
			return time.Time{}
		}
		return c.Leaf.NotAfter
	}
	var expiry certificateExpiry
	if joined != nil {
		expiry.client = func() time.Time { return until(joined.member.credentials.Certificate()) }
	}
	if serving != nil {
		expiry.server = func() time.Time {
			c, err := serving.GetCertificate(nil)
			if err != nil { // there is no certificate yet
				return time.Time{}
			}
			return until(c)
		}
	}
	return expiry
}

// newNodeAPIServer makes the API that the API server and users of the cluster call.
func newNodeAPIServer(n *podRunner, serving *cert.Serving, logs *logging.Logger) (*nodeAPIServer, error) {
	c, exits := n.config, newExitWatcher(n)
	settings := nodeapi.Config{
		Node: c.NodeName, Version: c.Version, Started: time.Now(),
		Pods: n.core.Agent, Runtime: streamingRuntime{n.client, n.core.Observer}, Logs: exits,
		SandboxEnded:  exits.SandboxStopped,
		Configz:       configz{c, n.driver.Get},
		Flags:         c.Given,
		CheckpointDir: filepath.Join(c.RootDir, "checkpoints"), SystemLogDir: systemLogs,
		Journal:    journal,
		Enabled:    nodeapi.Enabled{Debugging: c.API.Debugging, SystemLogs: c.API.SystemLogs, SystemLogQuery: c.API.SystemLogQuery, Profiling: c.API.Profiling, DebugFlags: c.API.DebugFlags},
		StreamIdle: c.API.StreamIdle,
		Stats:      n.stats.reader, Metrics: n.stats.handlers(),
		Access:       apiAccess(c, n.cluster),
		SetVerbosity: logs.SetVerbosity,
		Limits:       apiLimits(c.API.Limits),
		Checks: []nodeapi.Check{
			{Name: "log", Err: func(context.Context) error { return n.checked("log", logs.Output.Check(time.Now())) }},
			{Name: "syncloop", Err: n.loopAlive},
		},
		OnWebSocket: n.stats.counts.WebSocketRequested,
		Count: func(server, path string, stream bool, next http.Handler) http.Handler {
			request := metrics.Request{Path: path, LongRunning: stream}
			return n.stats.counts.Watch(server, func(*http.Request) metrics.Request { return request }, next)
		},
		Log: logs.Logger,
	}
	if serving != nil {
		settings.TLS = nodeapi.TLS{GetCertificate: serving.GetCertificate, MinVersion: c.API.MinTLS, Ciphers: c.API.Ciphers, Curves: c.API.Curves}
	}
	api, err := nodeapi.New(settings)
	return &nodeAPIServer{API: api, serving: serving}, err
}

// journal runs journalctl. Its errors are part of its output.
func journal(ctx context.Context, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "journalctl", args...)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd.Run()
}

// apiAccess returns which requests are allowed. Without a cluster there is no API server to review
// them.
func apiAccess(c *config.Config, joined *cluster) nodeapi.Access {
	access := nodeapi.Access{
		ClientCA: c.API.ClientCA, Anonymous: c.API.Anonymous,
		TokenTTL: c.API.TokenTTL, AllowedTTL: c.API.AllowedTTL, DeniedTTL: c.API.DeniedTTL,
	}
	if joined != nil && c.API.Tokens {
		access.Tokens = joined.clients.General.AuthenticationV1().TokenReviews()
	}
	if joined != nil && !c.API.AlwaysAllow {
		access.Reviews = joined.clients.General.AuthorizationV1().SubjectAccessReviews()
	}
	return access
}

// loopTimeout bounds the answer of the sync loop, which never blocks.
const loopTimeout = 10 * time.Second

// loopAlive returns an error if the sync loop is stuck.
func (c *podRunner) loopAlive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loopTimeout)
	defer cancel()
	return c.checked("syncloop", c.core.Agent.Alive(ctx))
}

// checked counts the result of a health check in the metrics, and returns it.
func (c *podRunner) checked(check string, err error) error {
	c.stats.counts.Checked(check, err)
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

// apiPorts returns the addresses that the node API listens on.
func apiPorts(c *config.Config) nodeapi.Addresses {
	return nodeapi.Addresses{
		Address: c.API.Address, Port: c.API.Port, ReadOnlyPort: c.API.ReadOnlyPort,
		HealthzAddress: c.API.HealthzAddress, HealthzPort: c.API.HealthzPort,
	}
}

// start serves the node API on the ports.
func (a *nodeAPIServer) start(group *run.Group, ports nodeapi.Listeners, fail func(error)) {
	if a.serving != nil {
		group.Go("serving certificate", a.serving.Run)
	}
	group.Go("node API", func(ctx context.Context) {
		if err := errors.Join(a.Serve(ctx, ports), a.Close()); err != nil {
			fail(err)
		}
	})
}

// streamingRuntime calls the runtime for requests of the node API, each bounded by cri.WithUserTimeout.
type streamingRuntime struct {
	*cri.Client
	observer *observe.Observer
}

func (r streamingRuntime) Observe(ctx context.Context, uid pod.UID) (pod.Observed, error) {
	return cri.WithUserTimeout(ctx, func(ctx context.Context) (pod.Observed, error) { return r.observer.Get(ctx, uid, time.Time{}) })
}

func (r streamingRuntime) All(ctx context.Context) (map[pod.UID]*pod.Observed, error) {
	return cri.WithUserTimeout(ctx, r.List)
}

func (r streamingRuntime) ExecURL(ctx context.Context, id string, command []string, s cri.Streams) (string, error) {
	return cri.WithUserTimeout(ctx, func(ctx context.Context) (string, error) { return r.Client.ExecURL(ctx, id, command, s) })
}

func (r streamingRuntime) AttachURL(ctx context.Context, id string, s cri.Streams) (string, error) {
	return cri.WithUserTimeout(ctx, func(ctx context.Context) (string, error) { return r.Client.AttachURL(ctx, id, s) })
}

func (r streamingRuntime) PortForwardURL(ctx context.Context, sandboxID string, ports ...int32) (string, error) {
	return cri.WithUserTimeout(ctx, func(ctx context.Context) (string, error) { return r.Client.PortForwardURL(ctx, sandboxID, ports...) })
}
