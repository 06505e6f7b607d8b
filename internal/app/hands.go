package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"berth/internal/config"
	"berth/internal/core/execute"
	"berth/internal/host/selinux"
	"berth/internal/lib/podfile"
	"berth/internal/pods/csi"
	"berth/internal/pods/hook"
	"berth/internal/pods/plugins"
	"berth/internal/pods/userns"
	"berth/internal/pods/volume"
	"berth/internal/runtime/cri"
	"berth/internal/runtime/crilog"
	"berth/internal/runtime/image"
	"berth/internal/runtime/render"
)

// makeHands makes what does the work of each pod.
func (n *node) makeHands(c *config.Config, in surroundings, records *image.Records) (*execute.Executor, error) {
	if err := n.makeImages(c, in, records); err != nil {
		return nil, err
	}
	if err := n.makeVolumes(c, in); err != nil {
		return nil, err
	}
	hooks, err := hook.New(hook.Config{Exec: in.client.Exec, Explain: cri.Reason, Log: n.log})
	if err != nil {
		return nil, err
	}
	users, err := userns.New(userns.Config{
		PodsDir: in.podsDir, Count: c.IDsPerPod, Range: idsForPods(n.group.Context()), Others: podsElsewhere(in.owner), Log: n.log,
	})
	if err != nil {
		return nil, err
	}
	return execute.New(execute.Config{
		Runtime: in.client, Images: n.images, Hooks: hooks, Probes: n.probes, Objects: n.objects, Volumes: n.volumes,
		Node: renderNode(c, in), Backoff: c.Backoff, Slots: execute.NewSlots(c.StartSlots), Log: n.log,
		RuntimeInfo: execute.RuntimeInfo{
			Name:        in.features.runtimeName,
			CanMapUsers: func(handler string) bool { return canMapUsers(in.features.handlers(), handler) },
			CheckLabel:  func(asked *v1.SELinuxOptions) error { return selinux.Label(*asked).Check() },
			ImageUser:   imageUsers(in.client),
			Explain:     cri.Reason,
		},
		Host: execute.Host{
			PodsDir: in.podsDir, LogLinksDir: c.LogLinksDir, UserNamespaces: users,
			IPs:         n.ips.now,
			Resolver:    func() (render.DNS, error) { return machineDNS(c.ResolvConf) },
			Allocatable: in.capacity.forPods,
			MakeCgroup: func(g render.Cgroup) error {
				defer in.watcher.Cgroup("create")()
				return n.cgroups.Make(g)
			},
			RemoveCgroup: func(ctx context.Context, path string) error {
				defer in.watcher.Cgroup("destroy")()
				return n.cgroups.Remove(ctx, path)
			},
			RemoveDir: func(dir string) error { return podfile.RemoveAll(filepath.Dir(dir), filepath.Base(dir)) },
			LogTail:   crilog.LastLines,
		},
		Reports: execute.Reports{
			Statuses: n.statuses, Events: in.diary.recorder, Upstream: in.upstream, Telemetry: in.watcher, PodGone: n.observer.Forget,
		},
	})
}

// makeVolumes makes what brings volumes to pods, by itself or with the drivers of this
// machine.
func (n *node) makeVolumes(c *config.Config, in surroundings) error {
	var err error
	n.drivers, err = csi.New(csi.Config{
		PodsDir: in.podsDir, PluginsDir: filepath.Join(c.RootDir, "plugins"), NodeName: c.NodeName, Objects: n.objects,
		OnCall: in.watcher.Metrics.CSICalled, Cluster: in.attaches, IsMount: kernel().IsMount, Enqueue: n.agent.Enqueue, Log: n.log,
		UnmountPath: func(ctx context.Context, path string) error {
			return kernel().Unmount(ctx, volume.MountPoint{Path: path})
		},
	})
	if err != nil {
		return err
	}
	n.plugins, err = plugins.New(plugins.Config{
		Dir: filepath.Join(c.RootDir, "plugins_registry"), Handlers: map[string]plugins.Handler{registration.CSIPlugin: n.drivers}, Log: n.log,
	})
	if err != nil {
		return err
	}
	if in.clients != nil {
		n.csiNode, err = csi.NewReporter(csi.ReporterConfig{Manager: n.drivers, Client: in.clients.General, Node: in.capacity.inCluster, Log: n.log})
		if err != nil {
			return err
		}
	}
	n.volumes, err = volume.New(volume.Config{
		PodsDir: in.podsDir, Objects: n.objects, Mounter: kernel(), CSI: n.drivers, Image: n.imageOfVolume, NodeName: c.NodeName,
		NodeLabels: in.capacity.labels, Allocatable: in.capacity.forPods, HostIPs: n.ips.now,
		RecursiveReadOnly: func(p *v1.Pod) bool { return readOnlyBelow(p, in.features.handlers()) }, OnSetUp: in.watcher.VolumeSetUp, Enqueue: n.agent.Enqueue, Log: n.log,
		Warn: func(p *v1.Pod, reason, message string) {
			in.diary.recorder.Record(p, v1.EventTypeWarning, reason, message)
		},
	})
	return err
}

// imageOfVolume has the image of a volume pulled like that of a container. No container
// has such a name.
func (n *node) imageOfVolume(ctx context.Context, p *v1.Pod, name string, s *v1.ImageVolumeSource) (string, time.Time, error) {
	state := n.images.Ensure(ctx, p, &v1.Container{Name: "volume/" + name, Image: s.Reference, ImagePullPolicy: s.PullPolicy})
	if state.Ref == "" {
		return "", state.Until, fmt.Errorf("%s: %s", state.Reason, state.Message)
	}
	return state.Ref, time.Time{}, nil
}

// limitedPages are the sizes of huge pages that containers can be kept from.
func limitedPages(in surroundings) []string {
	if !in.tree.LimitsHugePages() {
		return nil
	}
	return render.PageSizes(in.capacity.allocatable)
}

// renderNode is what pods take over from this machine, but for what may change.
func renderNode(c *config.Config, in surroundings) render.Node {
	return render.Node{
		Name: c.NodeName, Root: in.owner.ID(), LogsDir: c.PodLogsDir,
		InCluster: in.clients != nil, ClusterDNS: c.ClusterDNS, ClusterDomain: c.ClusterDomain,
		SeccompDir: filepath.Join(c.RootDir, "seccomp"), SeccompDefault: c.SeccompDefault,
		NoCPUQuota: c.NoCPUQuota, CPUPeriod: c.CPUPeriod, PodPids: c.PodPIDs,
		CgroupRoot: c.CgroupRoot, CgroupV2: in.tree.V2(), SwapLimits: in.tree.LimitsSwap(c.CgroupRoot),
		Memory: in.capacity.memory, PageSizes: limitedPages(in), MaskedPaths: throttlePaths(os.DirFS("/")),
	}
}

// readOnlyBelow tells whether what is mounted below a read-only mount can be
// read-only, too. Of a class, only what all handlers can do is known before its pod
// is run.
func readOnlyBelow(p *v1.Pod, handlers []cri.Handler) bool {
	class := p.Spec.RuntimeClassName
	all := len(handlers) > 0
	for _, h := range handlers {
		if h.Name == "" && (class == nil || *class == "") {
			return h.RecursiveReadOnlyMounts
		}
		all = all && h.RecursiveReadOnlyMounts
	}
	return all
}
