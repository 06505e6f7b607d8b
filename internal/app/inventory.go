package app

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
	"berth/internal/api/inventory"
	"berth/internal/cluster/node"
	"berth/internal/core/agent"
	"berth/internal/pods/probe"
	"berth/internal/pods/volume"
	"berth/internal/runtime/cri"
	"berth/internal/runtime/features"
)

// localInventory answers the local API for the Node, images, volumes and probes.
type localInventory struct {
	inCluster  func() *v1.Node // returns nil without a cluster
	standalone *node.Standalone
	client     *cri.Client
	features   *features.Features
	agent      *agent.Agent
	probes     *probe.Manager
	podsDir    string
}

// newInventory makes the inventory of a node. closed returns why the node takes no pods, or nil.
func newInventory(c *podRunner, closed func() error) (*localInventory, error) {
	standalone, err := node.NewStandalone(node.StandaloneConfig{
		Settings: nodeSettings(c.config), Machine: node.Host{Storage: c.config.RootDir}.Read, Addresses: c.ips.Read,
		Runtime:    func(ctx context.Context) (node.Runtime, error) { return runtimeFacts(ctx, c.client) },
		Status:     func(ctx context.Context) (node.RuntimeStatus, error) { return runtimeStatus(ctx, c.client) },
		Unanswered: func() []node.HungCall { return unanswered(c.client) },
		Alive:      c.core.Agent.Alive, Closed: closed,
	})
	return &localInventory{
		inCluster: c.capacity.machine.InCluster, standalone: standalone, client: c.client, features: c.features, agent: c.core.Agent, probes: c.probes, podsDir: c.podsDir,
	}, err
}

// Node implements localapi.Inventory. In a cluster it returns the Node of the API server.
func (i *localInventory) Node(ctx context.Context) (*v1.Node, error) {
	if n := i.inCluster(); n != nil {
		return n, nil
	}
	return i.standalone.Node(ctx)
}

// Images implements localapi.Inventory.
func (i *localInventory) Images(ctx context.Context) ([]api.Image, error) {
	if err := i.features.Await(ctx); err != nil {
		return nil, err
	}
	found, err := cri.WithUserTimeout(ctx, i.client.Images)
	if err != nil {
		return nil, err
	}
	images := make([]api.Image, 0, len(found))
	for _, f := range found {
		images = append(images, api.Image{ID: f.ID, Tags: f.Tags, Digests: f.Digests, Size: f.Size, Pinned: f.Pinned})
	}
	pods, _ := i.agent.List()
	return inventory.Images(images, pods), nil
}

// Volumes implements localapi.Inventory.
func (i *localInventory) Volumes(context.Context) ([]api.Volume, error) {
	pods, _ := i.agent.List()
	return inventory.Volumes(pods, i.podsDir, func(path string) inventory.Place { return inventory.Place(volume.StatDir(path)) }), nil
}

// Probes implements localapi.Inventory.
func (i *localInventory) Probes(p *v1.Pod) []api.ProbeResult {
	var out []api.ProbeResult
	for _, r := range i.probes.LastOfPod(p) {
		out = append(out, api.ProbeResult{
			Container: r.Container, Kind: r.Kind, At: r.At, Outcome: string(r.Outcome), Output: r.Output, InARow: r.InARow, Ended: r.Ended,
		})
	}
	return out
}
