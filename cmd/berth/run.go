package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"berth/internal/config"
	"berth/internal/cri"
	"berth/internal/desired"
	"berth/internal/measure"
	"berth/internal/pod"
	"berth/internal/refs"
	"berth/internal/run"
	"berth/internal/server"
	"berth/internal/server/api"
	"berth/internal/shutdown"
	"berth/internal/source"
)

func newRunCommand() *cobra.Command {
	var (
		flags config.Flags
		once  onceFlags
	)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the agent",
		Long: `Run takes pods from a folder or a URL and keeps their containers running until it is told to stop.

Without --container-runtime-endpoint it starts a containerd of its own below the root
directory. Containers and that containerd outlive the agent: stop it, upgrade it and start
it again as you like. 'berth down' is what ends them.`,
		Example: `  # the pods of /etc/berth/manifests
  berth run

  # the pods of another folder, with the state somewhere else
  berth run --manifests ./pods --root-dir /srv/berth

  # with a container runtime that is already there
  berth run --container-runtime-endpoint unix:///run/containerd/containerd.sock

  # one pod to its end, with its logs and its exit code, and nothing left of it
  berth run --once -f job.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if once.wanted || once.given(cmd) {
				return once.run(cmd, &flags)
			}
			c, err := loadConfig(cmd, &flags)
			if err != nil {
				return err
			}
			if err := needRoot("run"); err != nil {
				return err
			}
			log := newLogger(c.Verbosity)
			for _, field := range c.NotHonoured {
				log.Warn("the configuration sets a field that berth does not honour yet", "field", field)
			}
			for _, warning := range c.Warnings {
				log.Warn(warning)
			}
			lock, err := lockRoot(c.RootDir)
			if err != nil {
				return err
			}
			defer lock.release()
			if err := saveSettings(c); err != nil {
				return err
			}
			return runAgent(cmd.Context(), c, log)
		},
	}
	flags.AddTo(cmd.Flags())
	once.addTo(cmd)
	return cmd
}

// newLogger writes to stderr. From verbosity 4 on it tells what developers want
// to know, as people expect of a kubelet.
func newLogger(verbosity int) *slog.Logger {
	level := slog.LevelInfo
	if verbosity >= 4 {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	klog.SetSlogLogger(log) // the libraries of Kubernetes log there
	return log
}

// needRoot refuses early what would fail in the middle.
func needRoot(command string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("'berth %s' must run as root, since it starts containers: try 'sudo berth %s'", command, command)
	}
	return nil
}

// runAgent works until ctx ends. What runs of the pods goes on after that.
func runAgent(ctx context.Context, c *config.Config, log *slog.Logger) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	group := run.NewGroup(ctx, log)
	defer group.Stop()

	listener, err := server.Listen(api.SocketPath(c.RootDir), api.Group)
	if err != nil {
		return err
	}
	defer listener.Close()
	rt, err := newContainerRuntime(c, log)
	if err != nil {
		return err
	}
	var n *node // there before the sources run
	sources, names, err := newSources(c, func(ctx context.Context, objects []runtime.Object) { n.objects.Local.Set(ctx, objects) }, log)
	if err != nil {
		return err
	}
	log.Info("berth starts", "version", version, "root", c.RootDir, "node", c.NodeName, "manifests", c.ManifestDir, "url", c.ManifestURL)

	rt.start(group, fail, log)
	watcher, tracer, err := newWatcher(ctx, c)
	if err != nil {
		return err
	}
	defer func() { _ = tracer.Stop() }() // spans that a collector does not take are lost
	client, err := rt.connect(ctx, c, watcher, log)
	if err != nil {
		return whyEnded(ctx, err)
	}
	defer func() { _ = client.Close() }()
	var joined *cluster
	n, joined, err = assemble(ctx, c, client, watcher, names, log)
	if err != nil {
		return whyEnded(ctx, err)
	}
	defer n.stop()
	goingDown, err := watchShutdown(c, n, joined, group, log)
	if err != nil {
		return err
	}
	answers, err := newAnswering(c, n, joined, client, log)
	if err != nil {
		return err
	}
	store := imageStore{client: client, images: n.images, gc: n.imageGC, bundle: rt.bundle, log: log}
	local, err := server.New(server.Config{
		Images: store,
		Drains: drains{goingDown}, Node: answers.Local(), Debugs: n.agent, Inventory: newInventory(c, client, n, joined), Pods: podsWithProgress{n.agent, store}, Logs: containerLogs{n.observer, n.statuses, log}, Events: n.diary.store, Waterfalls: watcher, Version: version, Log: log,
	})
	if err != nil {
		return err
	}

	snapshots := make(chan pod.Snapshot)
	n.start(snapshots)
	group.Go("image gc", n.imageGC.Run)
	if err := answers.start(ctx, group, func(err error) { fail(err) }); err != nil {
		return err
	}
	var registered <-chan struct{} // never, without a cluster
	if joined != nil {
		sources, registered = append(sources, joined.pods), joined.registered
		joined.start(group, client, n.objects.API, func(err error) { fail(err) })
	}
	for _, s := range sources {
		group.Go("source", func(ctx context.Context) { s.Run(ctx, snapshots) })
	}
	group.Go("server", func(ctx context.Context) {
		if err := local.Serve(ctx, listener); err != nil {
			fail(err)
		}
	})
	for {
		select {
		case <-rt.up:
			n.runtimeIsBack()
		case <-rt.imported:
			n.images.Recheck(ctx)
		case <-registered:
			n.pool.LookAtAll() // static pods that run already can be mirrored now
		case <-ctx.Done():
			log.Info("berth ends; its pods go on", "cause", context.Cause(ctx))
			return whyEnded(ctx, ctx.Err())
		}
	}
}

// assemble makes the road of a pod, and what joins this machine to a cluster if it
// is to be in one.
func assemble(ctx context.Context, c *config.Config, client *cri.Client, watcher *measure.Watcher, sources []string, log *slog.Logger) (*node, *cluster, error) {
	in := surroundings{client: client, watcher: watcher, wanted: desired.New(), upstream: standalone{}, sources: sources}
	var err error
	if in.capacity, err = newCapacity(ctx, c, client); err != nil {
		return nil, nil, err
	}
	var shows *credentials
	if c.Cluster.Kubeconfig != "" {
		if shows, err = newCredentials(c, log); err != nil {
			return nil, nil, err
		}
		if in.clients, err = shows.clients(&c.Cluster); err != nil {
			return nil, nil, err
		}
	}
	if in.diary, err = newDiary(ctx, c, in.clients, log); err != nil {
		return nil, nil, err
	}
	var joined *cluster
	if in.clients != nil {
		joined, err = newCluster(c, in.clients, shows, client, in.wanted, in.diary.recorder, watcher.Metrics.StatusWritten, log)
		if err != nil {
			return nil, nil, err
		}
		in.upstream, in.capacity.inCluster = joined, joined.node.Node
		in.sources = append(in.sources, pod.SourceAPI)
	}
	n, err := newNode(ctx, c, in, log)
	return n, joined, err
}

// watchShutdown makes what stops the pods of this machine when it goes down or is
// drained.
func watchShutdown(c *config.Config, n *node, joined *cluster, group *run.Group, log *slog.Logger) (*shutdown.Manager, error) {
	settings := shutdown.Config{Pods: n.pool, Gate: n.agent, Log: log, Periods: c.Shutdown}
	if joined != nil {
		settings.Show = joined.node.SetShutdown
	}
	manager, err := shutdown.New(settings)
	if err != nil || len(c.Shutdown) == 0 {
		return manager, err
	}
	watcher, err := shutdown.NewWatcher(shutdown.WatcherConfig{Manager: manager, Log: log, Connect: shutdown.ConnectLogind})
	if err != nil {
		return nil, err
	}
	group.Go("shutdown of the machine", watcher.Run)
	return manager, nil
}

// whyEnded is nil if err only says that we were asked to end.
func whyEnded(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// podSource sends what it has of pods.
type podSource interface {
	Run(ctx context.Context, out chan<- pod.Snapshot)
}

// newSources returns the sources that c asks for, and their names. What pods may refer
// to in their manifests is handed to set.
func newSources(c *config.Config, set func(context.Context, []runtime.Object), log *slog.Logger) ([]podSource, []string, error) {
	var sources []podSource
	var names []string
	if c.ManifestDir != "" {
		names = append(names, pod.SourceFile)
	}
	if c.ManifestURL != "" {
		names = append(names, pod.SourceHTTP)
	}
	objects, err := refs.NewGather(refs.GatherConfig{Sources: names, Set: set, Log: log})
	if err != nil {
		return nil, nil, err
	}
	state := filepath.Join(c.RootDir, "sources")
	if c.ManifestDir != "" {
		s, err := source.NewFile(source.FileConfig{
			Path: c.ManifestDir, Node: c.NodeName, Every: c.ManifestCheck, State: filepath.Join(state, "file.json"), Log: log,
			Objects: objects.From(pod.SourceFile),
		})
		if err != nil {
			return nil, nil, err
		}
		sources = append(sources, s)
	}
	if c.ManifestURL != "" {
		s, err := source.NewHTTP(source.HTTPConfig{
			URL: c.ManifestURL, Header: c.ManifestHeaders, Node: c.NodeName, Every: c.URLCheck,
			State: filepath.Join(state, "http.json"), Log: log, Objects: objects.From(pod.SourceHTTP),
		})
		if err != nil {
			return nil, nil, err
		}
		sources = append(sources, s)
	}
	return sources, names, nil
}
