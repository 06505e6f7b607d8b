package review

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
)

// Kind says what would happen to a pod.
type Kind string

const (
	Started  Kind = "started"  // it is new
	Removed  Kind = "removed"  // no manifest has it any more
	Replaced Kind = "replaced" // it is stopped, and started anew as another pod
	Altered  Kind = "altered"  // it stays, and some of its containers may be made anew
	Refused  Kind = "refused"  // another source has a pod of that name
)

// Change is the change of one pod that new manifests would cause.
type Change struct {
	Kind   Kind   `json:"kind"`
	Pod    string `json:"pod"` // namespace/name
	Origin string `json:"origin,omitempty"`
	// Note is the effect on the containers, for users.
	Note string `json:"note"`
	// Restarts are the containers that would be stopped and made anew.
	Restarts []string `json:"restarts,omitempty"`
	Diff     string   `json:"diff,omitempty"` // of spec, labels and annotations
}

// Changes returns the changes of pods that the manifests of r would cause in an agent. With whole, r
// has all manifests of the agent, and pods that are not in r are removed.
func (r *Result) Changes(running []*v1.Pod, whole bool) ([]Change, error) {
	have := map[string]*v1.Pod{}
	for _, p := range running {
		if pod.IsStatic(p) && p.DeletionTimestamp == nil {
			have[pod.Ref(p)] = p
		}
	}
	var out []Change
	wanted := map[string]bool{}
	for _, w := range r.Pods {
		ref := pod.Ref(w.Pod)
		wanted[ref] = true
		change, err := compare(have[ref], w)
		if err != nil {
			return nil, err
		}
		if change != nil {
			out = append(out, *change)
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(have)) {
		if p := have[ref]; whole && !wanted[ref] && pod.Source(p) == pod.SourceFile && !r.keeps(ref) {
			out = append(out, Change{Kind: Removed, Pod: ref, Note: stopping(p), Restarts: nil})
		}
	}
	slices.SortStableFunc(out, func(a, b Change) int { return cmp.Compare(a.Pod, b.Pod) })
	return out, nil
}

// keeps reports whether the last good version of a pod would stay, because its
// manifest is wrong. One of which not even the name could be read may be anybody's.
func (r *Result) keeps(ref string) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == Error && (f.Pod == ref || f.Pod == "") })
}

func compare(have *v1.Pod, want Pod) (*Change, error) {
	c := &Change{Pod: pod.Ref(want.Pod), Origin: want.Origin}
	switch {
	case have == nil:
		c.Kind, c.Note = Started, fmt.Sprintf("with %d containers", len(want.Spec.InitContainers)+len(want.Spec.Containers))
		return c, nil
	case pod.Source(have) != pod.SourceFile:
		c.Kind, c.Note = Refused, fmt.Sprintf("source %s has a pod of that name already: rename one of the two, or remove it", pod.Source(have))
		return c, nil
	}
	if want.Spec.RuntimeClassName != nil && want.Spec.Overhead == nil {
		have = have.DeepCopy()
		have.Spec.Overhead = nil // the agent took it from the class
	}
	before, err := text(have)
	if err != nil {
		return nil, err
	}
	after, err := text(want.Pod)
	if err != nil {
		return nil, err
	}
	if c.Diff = unified("running", want.Origin, before, after); c.Diff == "" {
		return nil, nil
	}
	if !want.Fixed || want.UID != have.UID {
		c.Kind, c.Note, c.Restarts = Replaced, stopping(have)+", then started anew", names(want.Pod)
		return c, nil
	}
	c.Kind = Altered
	c.Restarts, c.Note = restarts(have, want.Pod)
	return c, nil
}

func stopping(p *v1.Pod) string { return fmt.Sprintf("stopped within %d s", pod.Grace(p)) }

// restarts are the containers that can't go on as they are, as plan sees it.
func restarts(have, want *v1.Pod) (containers []string, note string) {
	if plan.SandboxHash(have) != plan.SandboxHash(want) {
		return names(want), "its sandbox is made anew, and with it all containers"
	}
	before := map[string]string{}
	for _, c := range slices.Concat(have.Spec.InitContainers, have.Spec.Containers) {
		before[c.Name] = plan.ContainerHash(&c)
	}
	for _, c := range slices.Concat(want.Spec.InitContainers, want.Spec.Containers) {
		if hash, ok := before[c.Name]; ok && hash != plan.ContainerHash(&c) {
			containers = append(containers, c.Name)
		}
	}
	if len(containers) == 0 {
		return nil, "no container is restarted"
	}
	return containers, "only the containers that changed are restarted"
}

func names(p *v1.Pod) []string {
	var out []string
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		out = append(out, c.Name)
	}
	return out
}

// text returns the fields of a pod that users write, as YAML.
func text(p *v1.Pod) (string, error) {
	annotations := maps.Clone(p.Annotations)
	for _, ours := range []string{pod.AnnotationSource, pod.AnnotationSeen, pod.AnnotationHash} {
		delete(annotations, ours)
	}
	spec := p.Spec
	spec.EphemeralContainers = nil // 'berth debug' adds them, and no manifest has any
	out, err := yaml.Marshal(struct {
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
		Spec        v1.PodSpec        `json:"spec"`
	}{p.Labels, annotations, spec})
	if err != nil {
		return "", fmt.Errorf("write down pod %s: %w", pod.Ref(p), err)
	}
	return string(out), nil
}
