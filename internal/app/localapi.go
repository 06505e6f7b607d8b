package app

import (
	"berth/internal/api/imagestore"
	"berth/internal/api/localapi"
	"berth/internal/cluster/shutdown"
	"berth/internal/core/observe"
)

// newLocalAPI makes the API that the commands of berth call on this machine.
func newLocalAPI(n *podRunner, nodeAPI *nodeAPIServer, drain *shutdown.Manager) (*localapi.Server, error) {
	inventory, err := newInventory(n, drain.Closed)
	if err != nil {
		return nil, err
	}
	return localapi.New(localapi.Config{
		Pods: localapi.PullProgress{Pods: n.core.Agent, Progress: func(image string) string { return n.images.Progress(image).String() }}, Logs: newExitWatcher(n), Events: n.events.store,
		Images:    imagestore.Store{AwaitRuntime: n.features.Await, Runtime: n.client, Images: n.images, GC: n.imageGC, Bundle: n.bundle, Log: n.log},
		Inventory: inventory, Waterfalls: n.telemetry,
		Drains: Drains{drain}, EphemeralContainers: n.core.Agent, Node: nodeAPI.Local(), Version: n.config.Version, Log: n.log,
	})
}

func newExitWatcher(n *podRunner) observe.ExitWatcher {
	return observe.ExitWatcher{Pods: n.core.Observer, Statuses: n.core.Statuses, Log: n.log}
}
