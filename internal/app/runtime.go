package app

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"berth/internal/config"
	"berth/internal/host/roots"
	"berth/internal/lib/logonce"
	"berth/internal/lib/run"
	"berth/internal/lib/statefile"
	"berth/internal/runtime/bundle"
	"berth/internal/runtime/cri"
	"berth/internal/runtime/features"
	"berth/internal/telemetry/measure"
)

// containerRuntime is the container runtime of an agent: the bundled one, or the one of
// --container-runtime-endpoint.
type containerRuntime struct {
	owner    roots.Owner
	endpoint string
	bundle   *bundle.Runtime // nil for a runtime that berth does not manage
	signals  *runtimeSignals
}

func newContainerRuntime(c *config.Config, owner roots.Owner, state *statefile.Keeper, log *slog.Logger) (*containerRuntime, error) {
	signals := newRuntimeSignals()
	if c.RuntimeEndpoint != "" {
		return &containerRuntime{owner: owner, endpoint: c.RuntimeEndpoint, signals: signals}, nil
	}
	libexec, err := config.LibexecDir()
	if err != nil {
		return nil, err
	}
	ours, err := bundle.New(bundle.Config{
		Owner: owner, Libexec: libexec, PullTimeout: c.Images.PullTimeout, Silence: c.RuntimeSilence, State: state, Log: log,
		Ready: features.CheckReady, Answers: features.CheckAnswers, HasImage: features.HasImage,
		Up:       signals.notifyUp,
		Down:     func(error) {},
		Imported: signals.notifyImported, NetworkChanged: func() { run.Notify(signals.hints) },
	})
	if err != nil {
		return nil, err
	}
	return &containerRuntime{owner: owner, endpoint: ours.Endpoint(), bundle: ours, signals: signals}, nil
}

// start supervises the bundled runtime, or waits until another runtime answers. fail is called with the error if
// the bundled runtime can't be started.
func (r *containerRuntime) start(group *run.Group, fail func(error), log *slog.Logger) {
	if r.bundle != nil {
		group.Go("bundle", func(ctx context.Context) {
			if err := r.bundle.Run(ctx); err != nil {
				fail(err)
			}
		})
		return
	}
	group.Go("wait for the runtime", func(ctx context.Context) { r.await(ctx, log) })
}

// await polls a runtime that berth does not manage until it answers, and then signals that it is up.
func (r *containerRuntime) await(ctx context.Context, log *slog.Logger) {
	var streak logonce.Streak
	for ctx.Err() == nil {
		err := features.CheckRuntime(ctx, r.endpoint)
		if err == nil {
			r.signals.notifyUp()
			return
		}
		if streak.Failed(time.Now()) {
			log.Warn("waiting for the container runtime", "endpoint", r.endpoint, "err", err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// connect returns a client of the runtime, which may not be up yet.
func (r *containerRuntime) connect(c *config.Config, telemetry *measure.Recorder) (*cri.Client, error) {
	settings := cri.Config{RuntimeEndpoint: r.endpoint, ImageEndpoint: c.ImageEndpoint, Timeout: c.RuntimeTimeout, Call: telemetry.Call, Root: r.owner.ID()}
	if r.bundle == nil { // other programs may use the runtime, too
		settings.OwnsLogs = func(dir string) bool { return strings.HasPrefix(dir, c.PodLogsDir+"/") }
	}
	return cri.New(settings)
}

// awaitUp waits until the runtime has come up for the first time.
func (r *containerRuntime) awaitUp(ctx context.Context) error {
	select {
	case <-r.signals.cameUp:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
