package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"berth/internal/config"
	"berth/internal/host/roots"
	"berth/internal/lib/run"
	"berth/internal/lib/statefile"
	"berth/internal/runtime/bundle"
	"berth/internal/runtime/cri"
	"berth/internal/telemetry/measure"
)

// containerRuntime is the container runtime that an agent works with: its own, or the
// one that it was given.
type containerRuntime struct {
	owner    roots.Owner
	endpoint string
	bundle   *bundle.Runtime // nil if it was given
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
		Ready: askReady, Answers: askAnything, HasImage: askImage,
		Up:       signals.notifyUp,
		Down:     func(error) {},
		Imported: signals.notifyImported, NetworkChanged: func() { run.Notify(signals.hints) },
	})
	if err != nil {
		return nil, err
	}
	return &containerRuntime{owner: owner, endpoint: ours.Endpoint(), bundle: ours, signals: signals}, nil
}

// start supervises the bundled runtime, or waits for the given one to answer. fail gets the error if
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

// await signals when a runtime that berth does not manage answers.
func (r *containerRuntime) await(ctx context.Context, log *slog.Logger) {
	said := false
	for ctx.Err() == nil {
		err := askRuntime(ctx, r.endpoint)
		if err == nil {
			r.signals.notifyUp()
			return
		}
		if !said {
			log.Warn("waiting for the container runtime", "endpoint", r.endpoint, "err", err)
			said = true
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

const askTimeout = 5 * time.Second

// askRuntime asks once whether the runtime at an endpoint can make containers. Its network
// may come later: what brings it may be a pod.
func askRuntime(ctx context.Context, endpoint string) error {
	client, err := cri.New(cri.Config{RuntimeEndpoint: endpoint, Timeout: askTimeout})
	if err != nil {
		return err
	}
	info, err := client.Info(ctx)
	return errors.Join(err, info.Runtime, client.Close())
}

// askReady asks once whether the runtime at an endpoint can run pods.
func askReady(ctx context.Context, endpoint string) error {
	client, err := cri.New(cri.Config{RuntimeEndpoint: endpoint, Timeout: askTimeout})
	if err != nil {
		return err
	}
	return errors.Join(client.Ready(ctx), client.Close())
}

// askAnything asks once whether there is a runtime at an endpoint that answers, for as long
// as ctx allows. Whatever it answers will do.
func askAnything(ctx context.Context, endpoint string) error {
	const limit = time.Hour // ctx ends long before
	client, err := cri.New(cri.Config{RuntimeEndpoint: endpoint, Timeout: limit})
	if err != nil {
		return err
	}
	_, err = client.Version(ctx)
	return errors.Join(err, client.Close())
}

// askImage asks once whether the runtime at an endpoint knows an image.
func askImage(ctx context.Context, endpoint, image string) (bool, error) {
	client, err := cri.New(cri.Config{RuntimeEndpoint: endpoint, Timeout: askTimeout})
	if err != nil {
		return false, err
	}
	ref, err := client.ImageRef(ctx, image)
	return ref != "", errors.Join(err, client.Close())
}

// connect returns a client of the runtime, which may not be there yet.
func (r *containerRuntime) connect(c *config.Config, telemetry *measure.Recorder) (*cri.Client, error) {
	settings := cri.Config{RuntimeEndpoint: r.endpoint, ImageEndpoint: c.ImageEndpoint, Timeout: c.RuntimeTimeout, Call: telemetry.Call, Root: r.owner.ID()}
	if r.bundle == nil { // others may use it, too
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
