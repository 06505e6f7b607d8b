package app

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/api"
	"berth/internal/api/inventory"
	"berth/internal/cluster/node"
	"berth/internal/config"
	"berth/internal/core/agent"
	"berth/internal/host/addresses"
	"berth/internal/pods/probe"
	"berth/internal/runtime/cri"
	"berth/internal/runtime/features"
)

// localInventory answers the local API for the Node, images, volumes and probes.
type localInventory struct {
	config    *config.Config
	client    *cri.Client
	features  *features.Features
	ips       *addresses.Watcher
	agent     *agent.Agent
	probes    *probe.Manager
	inCluster func() *v1.Node // returns nil without a cluster
	closed    func() error    // why this node takes no pods; nil: it does
	started   time.Time

	mu          sync.Mutex
	lastStatus  v1.NodeStatus // without a cluster: what was told last, for the times in it
	lastRuntime node.Runtime  // likewise: what the runtime said last of itself
}

// newInventory makes the inventory of a node. closed tells why the node takes no pods, or nil.
func newInventory(c *podRunner, closed func() error) *localInventory {
	return &localInventory{
		config: c.config, client: c.client, features: c.features, ips: c.ips, agent: c.core.Agent, probes: c.probes, inCluster: c.capacity.inCluster,
		closed: closed, started: time.Now(),
	}
}

// Node implements localapi.Inventory. In a cluster it is the Node that all see there.
func (i *localInventory) Node(ctx context.Context) (*v1.Node, error) {
	if n := i.inCluster(); n != nil {
		return n, nil
	}
	m, err := node.Host{Storage: i.config.RootDir}.Read()
	if err != nil && m.Memory == 0 {
		return nil, fmt.Errorf("look at this machine: %w", err)
	}
	facts := node.Facts{Machine: m}
	if facts.Addresses, err = i.ips.Read(); err != nil {
		return nil, err
	}
	var health node.Health
	facts.Runtime, health = i.askRuntime(ctx)
	health.Shutdown = i.closed()
	settings, now := nodeSettings(i.config), time.Now()
	out := node.Build(facts, settings, health, now)
	out.CreationTimestamp = metav1.NewTime(i.started)
	out.Spec.Unschedulable = health.Shutdown != nil // without a cluster, a drain is the only thing that cordons the node

	i.mu.Lock()
	defer i.mu.Unlock()
	i.lastStatus = node.Status(facts, settings, health, i.lastStatus, now)
	out.Status = *i.lastStatus.DeepCopy()
	return out, nil
}

// askRuntime reads the facts of the runtime, and the health of the runtime and the sync loop. If the
// runtime does not answer within askTimeout, the facts are the last known ones.
func (i *localInventory) askRuntime(ctx context.Context) (node.Runtime, node.Health) {
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var health node.Health
	facts, err := runtimeFacts(asking, i.client)
	if err == nil {
		var info cri.Info
		if info, err = i.client.Info(asking); err == nil {
			health.Runtime, health.Network = info.Runtime, info.Network
		}
	}
	timeout := node.HangTimeout
	if err != nil {
		health.Runtime, timeout = err, askTimeout
	}
	if hung := node.Hung(unanswered(i.client), time.Now(), timeout); hung != nil {
		health.Runtime = hung
	}
	loop, cancelLoop := context.WithTimeout(ctx, askTimeout)
	defer cancelLoop()
	health.SyncLoop = i.agent.Alive(loop)

	i.mu.Lock()
	defer i.mu.Unlock()
	if err == nil || i.lastRuntime.Name == "" {
		i.lastRuntime = facts
	}
	return i.lastRuntime, health
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
	return inventory.Volumes(pods, filepath.Join(i.config.RootDir, "pods"), statVolume), nil
}

// Probes implements localapi.Inventory.
func (i *localInventory) Probes(p *v1.Pod) []api.ProbeResult {
	var out []api.ProbeResult
	for _, statuses := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, s := range statuses {
			_, id, _ := strings.Cut(s.ContainerID, "://")
			found, ended := i.probes.Last(id), false
			if found == nil {
				found, ended = i.probes.Before(p.UID, s.Name), true
			}
			for _, r := range found {
				out = append(out, api.ProbeResult{
					Container: s.Name, Kind: r.Kind, At: r.At, Outcome: string(r.Outcome), Output: r.Output, InARow: r.InARow, Ended: ended,
				})
			}
		}
	}
	return out
}

// statVolume reads age and space of a volume without walking through its directories.
func statVolume(path string) inventory.Place {
	var is unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME|unix.STATX_MODE, &is); err != nil {
		return inventory.Place{}
	}
	found := inventory.Place{There: true}
	if is.Mask&unix.STATX_BTIME != 0 {
		found.Since = time.Unix(is.Btime.Sec, int64(is.Btime.Nsec))
	}
	if is.Attributes_mask&is.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return found
	}
	var space unix.Statfs_t
	if err := unix.Statfs(path, &space); err == nil && space.Blocks > 0 {
		block := space.Bsize
		found.Capacity = new(int64(space.Blocks) * block)
		found.Used = new(int64(space.Blocks-space.Bfree) * block)
	}
	return found
}
