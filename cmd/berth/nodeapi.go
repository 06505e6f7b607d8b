package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/cert"
	"berth/internal/config"
	"berth/internal/cri"
	"berth/internal/metrics"
	"berth/internal/nodeapi"
	"berth/internal/observe"
	"berth/internal/pod"
	"berth/internal/run"
	"berth/internal/status"
)

// systemLogs is what the node shows of the machine's own logs.
const systemLogs = "/var/log"

// answering is the API of this node, and the certificate that it shows.
type answering struct {
	*nodeapi.API
	ports   nodeapi.Addresses
	serving *cert.Serving // nil: no port needs one
}

// newAnswering makes the API with which this node answers others.
func newAnswering(c *config.Config, n *node, joined *cluster, client *cri.Client, log *slog.Logger) (*answering, error) {
	a := &answering{ports: nodeapi.Addresses{
		Address: c.API.Address, Port: c.API.Port, ReadOnlyPort: c.API.ReadOnlyPort,
		HealthzAddress: c.API.HealthzAddress, HealthzPort: c.API.HealthzPort,
	}}
	settings := nodeapi.Config{
		Node: c.NodeName, Version: version, Started: time.Now(),
		Pods: n.agent, Runtime: streamingRuntime{client, n.observer}, Logs: containerLogs{n.observer, n.statuses, log},
		SandboxEnded:  sandboxes{n.observer, n.statuses, log}.ended,
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
		Checks: []nodeapi.Check{{Name: "syncloop", Err: n.loopAlive}},
		Count: func(path string, stream bool, next http.Handler) http.Handler {
			request := metrics.Request{Path: path, LongRunning: stream}
			return n.measured.counts.Watch("readwrite", func(*http.Request) metrics.Request { return request }, next)
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
			Addresses: func() []v1.NodeAddress { return nil }, Log: log,
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
	var err error
	a.API, err = nodeapi.New(settings)
	return a, err
}

// loopPatience is how long the sync loop, which never blocks, may take to answer.
const loopPatience = 10 * time.Second

// loopAlive tells whether the sync loop goes round.
func (n *node) loopAlive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loopPatience)
	defer cancel()
	err := n.agent.Alive(ctx)
	n.measured.counts.Checked("syncloop", err)
	return err
}

// start opens the ports and answers on them.
func (a *answering) start(ctx context.Context, group *run.Group, fail func(error)) error {
	listeners, err := nodeapi.Listen(ctx, a.ports)
	if err != nil {
		return err
	}
	if a.serving != nil {
		group.Go("serving certificate", a.serving.Run)
	}
	group.Go("node API", func(ctx context.Context) {
		if err := errors.Join(a.Serve(ctx, listeners), a.Close()); err != nil {
			fail(err)
		}
	})
	return nil
}

// streamingRuntime is the runtime as the API of the node wants it.
type streamingRuntime struct {
	*cri.Client
	observer *observe.Observer
}

func (r streamingRuntime) Observe(ctx context.Context, uid pod.UID) (pod.Observed, error) {
	return r.observer.Fresh(ctx, uid, time.Time{})
}

func (r streamingRuntime) All(ctx context.Context) (map[pod.UID]*pod.Observed, error) {
	return r.List(ctx)
}

func (r streamingRuntime) ExecURL(ctx context.Context, id string, command []string, s nodeapi.Streams) (string, error) {
	return r.Client.ExecURL(ctx, id, command, cri.Streams(s))
}

func (r streamingRuntime) AttachURL(ctx context.Context, id string, s nodeapi.Streams) (string, error) {
	return r.Client.AttachURL(ctx, id, cri.Streams(s))
}

// sandboxes knows when one is no more.
type sandboxes struct {
	observer *observe.Observer
	statuses *status.Store
	log      *slog.Logger
}

// lookAtSandbox is how often somebody who is connected to a sandbox looks at it. The
// runtime is only asked if something has happened to the pod.
const lookAtSandbox = time.Second

// ended returns a channel that is closed once the sandbox does not run, or ctx ends.
func (s sandboxes) ended(ctx context.Context, uid pod.UID, id string) <-chan struct{} {
	done := make(chan struct{})
	run.NewGroup(ctx, s.log).Go("wait for the end of sandbox "+id, func(ctx context.Context) {
		defer close(done)
		changed, stop := s.statuses.Watch()
		defer stop()
		for s.runs(ctx, uid, id) {
			select {
			case <-changed:
			case <-time.After(lookAtSandbox): // its end may change nothing in a status
			case <-ctx.Done():
				return
			}
		}
	})
	return done
}

func (s sandboxes) runs(ctx context.Context, uid pod.UID, id string) bool {
	have, err := s.observer.Fresh(ctx, uid, time.Time{})
	if err != nil {
		return ctx.Err() == nil // a runtime that does not answer tells nothing
	}
	newest := have.Sandbox()
	return newest != nil && newest.ID == id && newest.State == pod.SandboxReady
}
