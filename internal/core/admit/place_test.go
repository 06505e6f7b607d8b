package admit

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func static(p *v1.Pod) *v1.Pod {
	p.Annotations = map[string]string{pod.AnnotationSource: pod.SourceFile}
	return p
}

// expect checks a rejection against the words that are wanted. None means that
// the pod is admitted.
func expect(t *testing.T, got, want *Rejection) {
	t.Helper()
	if (got == nil) != (want == nil) || (got != nil && *got != *want) {
		t.Errorf("got %+v, wanted %+v", got, want)
	}
}

func TestShutdown(t *testing.T) {
	rejected := &Rejection{"NodeShutdown", "Pod was rejected as the node is shutting down."}
	expect(t, Check(newPod("web"), nil, Node{ShuttingDown: true}), rejected)
	// A critical one may not come in either, even if room could be made for it.
	got := decide(static(newPod("web", v1.ContainerPort{HostPort: 80})), []*v1.Pod{newPod("b", v1.ContainerPort{HostPort: 80})}, Node{ShuttingDown: true})
	expect(t, got.Reject, rejected)
	if len(got.Preempt) > 0 {
		t.Errorf("preempts %v", got.Preempt)
	}
}

func TestNodeName(t *testing.T) {
	elsewhere := &Rejection{"NodeName", "Predicate NodeName failed: node(s) didn't match the requested node name"}
	for name, test := range map[string]struct {
		wanted, node string
		want         *Rejection
	}{
		"this node":     {"box", "box", nil},
		"any node":      {"", "box", nil},
		"another node":  {"other", "box", elsewhere},
		"name not said": {"other", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod("web")
			p.Spec.NodeName = test.wanted
			expect(t, Check(p, nil, Node{Name: test.node}), test.want)
		})
	}
}

func TestNodeSelectorAndAffinity(t *testing.T) {
	selector := func(labels map[string]string) func(*v1.PodSpec) {
		return func(s *v1.PodSpec) { s.NodeSelector = labels }
	}
	terms := func(terms ...v1.NodeSelectorTerm) func(*v1.PodSpec) {
		return func(s *v1.PodSpec) {
			s.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms},
			}}
		}
	}
	label := func(key string, op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	field := func(value string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{value}},
		}}
	}
	for name, test := range map[string]struct {
		edit func(*v1.PodSpec)
		fits bool
	}{
		"nothing asked":         {func(*v1.PodSpec) {}, true},
		"the label":             {selector(map[string]string{"disk": "fast"}), true},
		"another value":         {selector(map[string]string{"disk": "slow"}), false},
		"a label that is not":   {selector(map[string]string{"disk": "fast", "gpu": "yes"}), false},
		"an expression":         {terms(label("disk", v1.NodeSelectorOpNotIn, "slow")), true},
		"an expression, failed": {terms(label("disk", v1.NodeSelectorOpDoesNotExist)), false},
		"a number":              {terms(label("cores", v1.NodeSelectorOpGt, "3")), true},
		"one of two terms":      {terms(label("gpu", v1.NodeSelectorOpExists), label("disk", v1.NodeSelectorOpExists)), true},
		"no terms":              {terms(), false},
		"an empty term":         {terms(v1.NodeSelectorTerm{}), false},
		"not readable":          {terms(label("disk", "Near", "fast")), false},
		"the name":              {terms(field("box")), true},
		"another name":          {terms(field("other")), false},
		"no more than wished": {func(s *v1.PodSpec) {
			s.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 1, Preference: field("other")}},
			}}
		}, true},
		"affinity that says nothing": {func(s *v1.PodSpec) { s.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod("web")
			test.edit(&p.Spec)
			var want *Rejection
			if !test.fits {
				want = &Rejection{"NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
			}
			expect(t, Check(p, nil, Node{Name: "box", Labels: map[string]string{"disk": "fast", "cores": "4"}}), want)
			expect(t, Check(static(p), nil, Node{Name: "box"}), nil) // without a cluster there is nothing to match
		})
	}
	t.Run("a node without labels", func(t *testing.T) {
		p := newPod("web")
		p.Spec.NodeSelector = map[string]string{"disk": "fast"}
		if got := Check(p, nil, Node{Labels: map[string]string{}}); reason(got) != "NodeAffinity" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestSelectorOfTheOS(t *testing.T) {
	for name, test := range map[string]struct {
		wanted string
		node   Node
		want   string
	}{
		"linux":                    {"linux", Node{}, ""},
		"windows":                  {"windows", Node{}, "PodOSSelectorNodeLabelDoesNotMatch"},
		"windows, and the node is": {"windows", Node{OS: v1.Windows}, ""},
		"in a cluster":             {"windows", Node{Labels: map[string]string{"kubernetes.io/os": "linux"}}, "PodOSSelectorNodeLabelDoesNotMatch"},
		"the label is not there":   {"linux", Node{Labels: map[string]string{}}, "NodeAffinity"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod("web")
			p.Spec.NodeSelector = map[string]string{"kubernetes.io/os": test.wanted}
			if got := Check(p, nil, test.node); reason(got) != test.want {
				t.Errorf("got %+v, wanted %q", got, test.want)
			}
		})
	}
}

func TestTaints(t *testing.T) {
	unreachable := v1.Taint{Key: "unreachable", Effect: v1.TaintEffectNoExecute}
	for name, test := range map[string]struct {
		pod      *v1.Pod
		tolerate []v1.Toleration
		taints   []v1.Taint
		fits     bool
	}{
		"no taint":                    {newPod("a"), nil, nil, true},
		"not tolerated":               {newPod("a"), nil, []v1.Taint{unreachable}, false},
		"tolerated":                   {newPod("a"), []v1.Toleration{{Key: "unreachable", Operator: v1.TolerationOpExists}}, []v1.Taint{unreachable}, true},
		"one of two":                  {newPod("a"), []v1.Toleration{{Key: "unreachable", Operator: v1.TolerationOpExists}}, []v1.Taint{unreachable, {Key: "b", Effect: v1.TaintEffectNoExecute}}, false},
		"by a number":                 {newPod("a"), []v1.Toleration{{Key: "load", Operator: v1.TolerationOpLt, Value: "5"}}, []v1.Taint{{Key: "load", Value: "3", Effect: v1.TaintEffectNoExecute}}, true},
		"what is not a number":        {newPod("a"), []v1.Toleration{{Key: "load", Operator: v1.TolerationOpLt, Value: "x"}}, []v1.Taint{{Key: "load", Value: "y", Effect: v1.TaintEffectNoExecute}}, false},
		"only to be scheduled":        {newPod("a"), nil, []v1.Taint{{Key: "b", Effect: v1.TaintEffectNoSchedule}}, true},
		"a static pod stays":          {static(newPod("a")), nil, []v1.Taint{unreachable}, true},
		"a critical one is no better": {critical(newPod("a")), nil, []v1.Taint{unreachable}, false},
	} {
		t.Run(name, func(t *testing.T) {
			test.pod.Spec.Tolerations = test.tolerate
			var want *Rejection
			if !test.fits {
				want = &Rejection{"TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"}
			}
			expect(t, Check(test.pod, nil, Node{Taints: test.taints}), want)
		})
	}
}
