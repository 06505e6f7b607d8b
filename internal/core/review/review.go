// Package review says beforehand what the agent would make of manifests: which
// it would refuse and why, what it can't do yet, what is unwise (Read), and what an
// edit would do to the pods that run (Changes).
//
// It asks the packages that decide when it is for real (manifest, merge, admit,
// plan), so that it can't be of another opinion. It is pure: files are handed to it
// as bytes, and running pods as the agent reports them.
package review

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/admit"
	"berth/internal/intake/manifest"
	"berth/internal/intake/merge"
	"berth/internal/lib/pod"
)

// File is a manifest that was read, or could not be.
type File struct {
	Origin string
	Data   []byte
	Err    error
}

// Level says how bad a finding is.
type Level string

const (
	// Error is for what is not taken in, or would not run.
	Error Level = "error"
	// Warning is for what is taken in and may not be what was meant.
	Warning Level = "warning"
)

// Finding is something to be said about a manifest.
type Finding struct {
	Level   Level  `json:"level"`
	Origin  string `json:"origin"`
	Line    int    `json:"line,omitempty"` // counted from 1; 0 if unknown
	Pod     string `json:"pod,omitempty"`  // namespace/name
	Message string `json:"message"`
}

// Pod is a pod that the agent would accept.
type Pod struct {
	*v1.Pod // with its name and UID on the node

	Origin string
	Fixed  bool // the manifest has a UID, so that an edited manifest is the same pod
}

// Result has the pods of some manifests, and the findings about them.
type Result struct {
	Pods     []Pod
	Findings []Finding // by file and line
}

// Failed reports whether anything would be refused.
func (r *Result) Failed() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == Error })
}

// Read reviews manifests for a node of that name.
func Read(files []File, node string) (*Result, error) {
	r := &Result{}
	var pods []Pod
	for _, f := range files {
		pods = append(pods, r.file(f, node)...)
	}
	if err := r.contest(pods); err != nil {
		return nil, err
	}
	r.admit(node)
	for _, p := range r.Pods {
		for _, text := range warnings(p.Pod) {
			r.addFinding(Warning, p, text)
		}
	}
	order := map[string]int{}
	for i, f := range files {
		order[f.Origin] = i
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.Origin], order[b.Origin]), cmp.Compare(a.Level, b.Level), cmp.Compare(a.Line, b.Line))
	})
	return r, nil
}

func (r *Result) addFinding(level Level, about Pod, text string) {
	r.Findings = append(r.Findings, Finding{Level: level, Origin: about.Origin, Pod: pod.Ref(about.Pod), Message: text})
}

// file reads one manifest, and returns its valid pods.
func (r *Result) file(f File, node string) []Pod {
	whole := func(message string) {
		r.Findings = append(r.Findings, Finding{Level: Error, Origin: f.Origin, Message: message})
	}
	switch {
	case f.Err != nil:
		whole(f.Err.Error())
		return nil
	case len(bytes.TrimSpace(f.Data)) == 0:
		whole("the manifest is empty")
		return nil
	}
	parsed := manifest.Parse(f.Data)
	for _, p := range parsed.Problems {
		found := Finding{Level: Error, Origin: f.Origin, Line: p.Line, Message: p.Message}
		if p.Name != "" && p.Namespace != "" {
			found.Pod = p.Namespace + "/" + manifest.StaticName(p.Name, node)
		}
		r.Findings = append(r.Findings, found)
	}
	var pods []Pod
	for _, p := range parsed.Pods {
		static, err := manifest.Static(p, node, pod.SourceFile, f.Origin)
		if err != nil {
			whole(err.Error())
			continue
		}
		pods = append(pods, Pod{Pod: static, Origin: f.Origin, Fixed: p.UID != ""})
	}
	return pods
}

// contest lets one pod have each name, as the agent would.
func (r *Result) contest(pods []Pod) error {
	merger, err := merge.New(merge.Incremental)
	if err != nil {
		return err
	}
	snapshot := pod.Snapshot{Source: pod.SourceFile, Op: pod.Set}
	for _, p := range pods {
		snapshot.Pods = append(snapshot.Pods, p.Pod)
	}
	accepted := map[pod.UID]bool{}
	var refused []pod.Refusal
	for _, u := range merger.Merge(snapshot, time.Time{}) {
		for _, p := range u.Pods {
			accepted[p.UID] = true
		}
		refused = u.Refused // all that stand, in the order of the pods
	}
	for _, p := range pods {
		if accepted[p.UID] {
			accepted[p.UID] = false // a second one with this UID is another pod
			r.Pods = append(r.Pods, p)
			continue
		}
		if len(refused) == 0 {
			return fmt.Errorf("pod %s of %s was neither accepted nor refused", pod.Ref(p.Pod), p.Origin)
		}
		r.addFinding(Error, p, refused[0].Message)
		refused = refused[1:]
	}
	return nil
}

// admit asks whether the pods could run on a node of which nothing is known but
// its name.
func (r *Result) admit(node string) {
	var before []*v1.Pod
	for _, p := range r.Pods {
		if no := admit.Check(p.Pod, before, admit.Node{Name: node}); no != nil {
			level, text := Error, fmt.Sprintf("%s (%s)", no.Message, no.Reason)
			switch no.Reason {
			case reasonSysctl:
				level, text = Warning, text+": the agent has to be configured with allowedUnsafeSysctls for it"
			case pod.ReasonNodePorts:
				text += ": it starts only once that pod has ended"
			}
			r.addFinding(level, p, text)
			continue
		}
		before = append(before, p.Pod)
	}
}

// reasonSysctl is the reason of rejections for sysctls, which depend on the configuration.
const reasonSysctl = "SysctlForbidden"
