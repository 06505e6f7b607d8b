package app

import (
	"berth/internal/cluster/shutdown"
	"berth/internal/lib/run"
)

// shutdownHandler stops the pods of this machine when it shuts down or is drained.
type shutdownHandler struct {
	manager *shutdown.Manager
	watcher *shutdown.Watcher // nil: a shutdown of the machine does not wait for pods
}

func newShutdown(n *podRunner) (*shutdownHandler, error) {
	settings := shutdown.Config{
		Pods: n.core.Pool, Gate: n.core.Agent, Log: n.log, Periods: n.config.Shutdown,
		Began: n.stats.counts.ShutdownStarted, Ended: n.stats.counts.ShutdownEnded,
	}
	if n.cluster != nil {
		settings.Show = n.cluster.node.SetShutdown
	}
	manager, err := shutdown.New(settings)
	if err != nil || len(n.config.Shutdown) == 0 {
		return &shutdownHandler{manager: manager}, err
	}
	watcher, err := shutdown.NewWatcher(shutdown.WatcherConfig{Manager: manager, Log: n.log, Connect: shutdown.ConnectLogind})
	return &shutdownHandler{manager: manager, watcher: watcher}, err
}

func (s *shutdownHandler) start(group *run.Group) {
	if s.watcher != nil {
		group.Go("shutdown of the machine", s.watcher.Run)
	}
}
