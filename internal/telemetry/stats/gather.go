package stats

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// nodeKey names the node among the cgroups whose rates are kept.
const nodeKey = "/"

// agentKey names this process there.
const agentKey = "agent"

// gather measures all that is asked for.
func (r *Reader) gather(ctx context.Context, scope Scope) (*Snapshot, error) {
	began := time.Now()
	node, err := r.machine.read()
	if err != nil {
		return nil, err
	}
	s := &Snapshot{At: began, Node: node, Pods: r.running()}
	r.readNode(&s.Node)
	reported := r.readRuntime(ctx, s.Pods, scope)
	processes := newProcessReader(r.Proc)
	for i := range s.Pods {
		r.readPod(&s.Pods[i], scope, reported, processes)
	}
	if scope >= Detailed {
		s.Node.Detail = r.Counters.Detail(nodeKey)
		r.machine.pressure(&s.Node.Detail)
		r.detailSystemContainers(&s.Node)
	}
	if scope >= Full {
		s.Node.Disks = named(r.Counters.Disks(nodeKey))
		s.Node.DiskStats, s.Node.Topology = r.machine.diskStats(), r.topology()
		r.readFiles(ctx, s, reported)
	}
	s.hasRates = s.Node.Rate != nil && !slices.ContainsFunc(s.Pods, Pod.lacksRates)
	r.rates.prune(began.Add(-rateWithin))
	return s, nil
}

// sample only reads the CPU time, for the rates that follow.
func (r *Reader) sample() {
	if node, err := r.machine.read(); err == nil {
		r.readNode(&node)
	}
	for _, p := range r.running() {
		r.usage(p.Cgroup)
		for _, c := range p.Containers {
			if c.Cgroup != "" {
				r.usage(c.Cgroup)
			}
		}
	}
}

// running returns the pods of which something runs, and what of them does.
func (r *Reader) running() []Pod {
	known := map[pod.UID]pod.Observed{}
	for _, o := range r.Known() {
		known[o.UID] = o
	}
	var out []Pod
	for _, p := range r.Pods() {
		have := known[p.UID]
		if have.Running() {
			out = append(out, r.describe(p, have))
		}
	}
	slices.SortFunc(out, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return out
}

// describe says what a pod is made of. The runtime names the cgroups of containers
// by their ids, with more around it where systemd keeps them.
func (r *Reader) describe(p *v1.Pod, have pod.Observed) Pod {
	out := Pod{UID: p.UID, Namespace: p.Namespace, Name: p.Name, Cgroup: r.Cgroup(p), spec: &p.Spec}
	children, err := r.Counters.Children(out.Cgroup)
	if err != nil {
		r.Log.Debug("can't list the cgroups of a pod", "pod", pod.Ref(p), "err", err)
	}
	of := func(id string) string {
		i := slices.IndexFunc(children, func(name string) bool { return strings.Contains(name, id) })
		if i < 0 {
			return ""
		}
		return filepath.Join(out.Cgroup, children[i])
	}
	if s := have.Sandbox(); s != nil {
		out.SandboxID, out.Started, out.sandboxCgroup = s.ID, s.CreatedAt, of(s.ID)
	}
	for _, c := range have.Containers {
		if c.State != pod.ContainerRunning {
			continue
		}
		described := Container{ID: c.ID, Name: c.Name, Image: c.Image, Started: c.StartedAt, Cgroup: of(c.ID)}
		if c.LogPath != "" {
			described.logDir = filepath.Dir(c.LogPath)
		}
		out.Containers = append(out.Containers, described)
	}
	slices.SortFunc(out.Containers, func(a, b Container) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// usage reads a cgroup, and how fast it uses the CPU.
func (r *Reader) usage(path string) Usage {
	u := r.Counters.Usage(path)
	return Usage{Usage: u, Rate: r.rates.add(path, u.At, u.CPU)}
}

func (r *Reader) readPod(p *Pod, scope Scope, reported runtimeStats, processes *processReader) {
	p.Usage = r.usage(p.Cgroup)
	if scope >= Detailed {
		p.Detail = r.Counters.Detail(p.Cgroup)
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Cgroup == "" {
			c.Usage = r.runtimeReported(c.ID, reported.containers[c.ID])
			continue
		}
		c.Usage = r.usage(c.Cgroup)
		if scope >= Detailed {
			c.Detail = r.Counters.Detail(c.Cgroup)
		}
		if scope >= Full {
			c.Disks = named(r.Counters.Disks(c.Cgroup))
			c.Running = processes.read(r.Counters.Processes(c.Cgroup, maxProcesses))
		}
	}
	if scope >= Full && !p.spec.HostNetwork && p.sandboxCgroup != "" {
		p.Network = r.machine.networkOf(r.Counters.Process(p.sandboxCgroup))
	}
}

// readNode adds what is counted for the node as a whole.
func (r *Reader) readNode(n *Node) {
	n.Name = r.NodeName
	if all := r.Counters.Usage(nodeKey); all.CPU != nil {
		n.CPU = all.CPU // finer than what the kernel counts by processor
	}
	n.Rate = r.rates.add(nodeKey, n.At, n.CPU)
	if r.AllPods != nil {
		n.Pods = &SystemContainer{Usage: r.usage(r.AllPods())}
	}
	if r.RuntimeCgroup != "" {
		n.Runtime = &SystemContainer{Usage: r.usage(r.RuntimeCgroup)}
	}
	if r.SystemCgroup != "" {
		n.System = &SystemContainer{Usage: r.usage(r.SystemCgroup)}
	}
	if n.Agent != nil {
		n.Agent.Rate = r.rates.add(agentKey, n.Agent.At, n.Agent.CPU)
	}
}

// detailSystemContainers adds the detail of the cgroups that the system containers are.
func (r *Reader) detailSystemContainers(n *Node) {
	if n.Pods != nil {
		n.Pods.Detail = r.Counters.Detail(r.AllPods())
	}
	for _, known := range []struct {
		cgroup string
		c      *SystemContainer
	}{{r.AgentCgroup, n.Agent}, {r.RuntimeCgroup, n.Runtime}, {r.SystemCgroup, n.System}} {
		if known.cgroup != "" && known.c != nil {
			known.c.Detail = r.Counters.Detail(known.cgroup)
		}
	}
}
