package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"berth/internal/config"
	"berth/internal/core"
	"berth/internal/core/execute"
	"berth/internal/host/kernel"
	"berth/internal/host/selinux"
	"berth/internal/lib/podfile"
	"berth/internal/pods/hook"
	"berth/internal/pods/userns"
	"berth/internal/runtime/cri"
	"berth/internal/runtime/crilog"
	"berth/internal/runtime/render"
	"berth/internal/telemetry/event"
)

// newCore makes the core of the agent, and the services that it calls for each pod.
func newCore(ctx context.Context, in *deps, loop *syncLoop, services *podServices) (*core.Core, error) {
	c := in.config
	hooks, err := hook.New(hook.Config{
		Exec: in.client.Exec, Explain: cri.Reason, SleepCutShort: in.telemetry.Metrics.SleepCutShort, Log: in.log,
		OnFallback: func(p *v1.Pod, host string) {
			in.events.recorder.Record(p, v1.EventTypeWarning, event.LifecycleHTTPFallback,
				fmt.Sprintf("request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", host))
		},
	})
	if err != nil {
		return nil, err
	}
	users, err := userns.New(userns.Config{
		PodsDir: in.podsDir, Count: c.IDsPerPod, Range: podIDRange(ctx), Others: podsElsewhere(in.owner), Log: in.log,
	})
	if err != nil {
		return nil, err
	}
	return core.New(loop.Loop, core.Config{
		Images: services.images, Hooks: hooks, Probes: loop.probes, Objects: loop.objects, Volumes: services.volumes,
		Node: renderNode(in), Backoff: c.Backoff, Slots: execute.NewSlots(c.StartSlots),
		RuntimeInfo: execute.RuntimeInfo{
			Name:        in.features.RuntimeName,
			CanMapUsers: func(handler string) bool { return cri.CanMapUsers(in.features.Handlers(), handler) },
			CheckLabel:  func(asked *v1.SELinuxOptions) error { return in.features.CheckLabel(selinux.Label(*asked)) },
			ImageUser:   in.client.ImageUser,
			Explain:     cri.Reason,
		},
		Host: execute.Host{
			PodsDir: in.podsDir, LogLinksDir: c.LogLinksDir, UserNamespaces: users,
			IPs:         in.hostIPs,
			Resolver:    func() (render.DNS, error) { return execute.ReadResolvConf(c.ResolvConf) },
			Allocatable: in.capacity.forPods,
			MakeCgroup: func(ctx context.Context, g render.Cgroup) error {
				defer in.telemetry.Cgroup("create")()
				return in.cgroups.Make(ctx, g)
			},
			CgroupExists: in.cgroups.Exists,
			CgroupDriver: in.driver.Get,
			LimitsSwap:   func() bool { return in.tree.LimitsSwap(in.cgroups.Path(c.CgroupRoot)) },
			RemoveCgroup: func(ctx context.Context, name string) error {
				defer in.telemetry.Cgroup("destroy")()
				return in.cgroups.Remove(ctx, name)
			},
			RemoveDir: func(dir string) error { return podfile.RemoveAll(filepath.Dir(dir), filepath.Base(dir)) },
			LogTail:   crilog.LastLines,
			OOMVictim: in.victims.Message,
		},
	})
}

// limitedPages returns the sizes of huge pages that cgroups can limit.
func limitedPages(in *deps) []string {
	if !in.tree.LimitsHugePages() {
		return nil
	}
	return render.PageSizes(in.capacity.allocatable)
}

// renderNode returns the facts of this machine that are rendered into the containers of pods.
func renderNode(in *deps) render.Node {
	c := in.config
	return render.Node{
		Name: c.NodeName, Root: in.owner.ID(), LogsDir: c.PodLogsDir,
		InCluster: in.cluster != nil, ClusterDNS: c.ClusterDNS, ClusterDomain: c.ClusterDomain,
		SeccompDir: filepath.Join(c.RootDir, "seccomp"), SeccompDefault: c.SeccompDefault,
		NoCPUQuota: c.NoCPUQuota, CPUPeriod: c.CPUPeriod, PodPids: c.PodPIDs,
		CgroupRoot: c.CgroupRoot, CgroupV2: in.tree.V2(), LimitedSwap: c.Cgroups.LimitedSwap, Swap: in.capacity.swap, MemoryQoS: memoryQoS(c.Cgroups.MemoryQoS),
		Memory: in.capacity.memory, PageSizes: limitedPages(in), MaskedPaths: kernel.ThrottlePaths(os.DirFS("/")),
	}
}

func memoryQoS(c *config.MemoryQoS) *render.MemoryQoS {
	if c == nil {
		return nil
	}
	return &render.MemoryQoS{ThrottlingFactor: c.ThrottlingFactor, Tiered: c.Tiered}
}
