package plan

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func TestWhatFollowsFromAnEnd(t *testing.T) {
	const (
		always    = v1.ContainerRestartPolicyAlways
		onFailure = v1.ContainerRestartPolicyOnFailure
		never     = v1.ContainerRestartPolicyNever
	)
	all := v1.ContainerRestartRule{
		Action:    v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{0, 3}},
	}
	for name, test := range map[string]struct {
		pod, own        v1.ContainerRestartPolicy
		init            bool
		rules           []v1.ContainerRestartRule
		success, failed verdict // after exit code 0, and 3
	}{
		"main, Always":               {pod: always, success: restart, failed: restart},
		"main, OnFailure":            {pod: onFailure, success: final, failed: restart},
		"main, Never":                {pod: never, success: final, failed: final},
		"main, no policy at all":     {success: restart, failed: restart},
		"main, its own goes first":   {pod: never, own: always, success: restart, failed: restart},
		"init, Always":               {pod: always, init: true, success: final, failed: restart},
		"init, OnFailure":            {pod: onFailure, init: true, success: final, failed: restart},
		"init, Never":                {pod: never, init: true, success: final, failed: final},
		"init, Never of its own":     {pod: always, own: never, init: true, success: final, failed: final},
		"sidecar":                    {pod: never, own: always, init: true, success: restart, failed: restart},
		"rules go before all":        {pod: never, own: never, rules: []v1.ContainerRestartRule{all}, success: restartAll, failed: restartAll},
		"a rule without a condition": {pod: never, own: never, rules: []v1.ContainerRestartRule{{Action: all.Action}}, success: final, failed: final},
	} {
		spec := v1.Container{Name: "c", RestartPolicyRules: test.rules}
		if test.own != "" {
			spec.RestartPolicy = &test.own
		}
		p := &v1.Pod{}
		p.Spec.RestartPolicy = v1.RestartPolicy(test.pod)
		if test.init {
			p.Spec.InitContainers = []v1.Container{spec}
		} else {
			p.Spec.Containers = []v1.Container{spec}
		}
		if got := verdictOn(p, &spec, &pod.Container{Name: "c", ExitCode: 0}); got != test.success {
			t.Errorf("%s: a success gives %v, want %v", name, got, test.success)
		}
		if got := verdictOn(p, &spec, &pod.Container{Name: "c", ExitCode: 3}); got != test.failed {
			t.Errorf("%s: a failure gives %v, want %v", name, got, test.failed)
		}
		if got := verdictOn(p, &spec, &pod.Container{Name: "c", ExitCode: 0, ToRestart: true}); got != restart {
			t.Errorf("%s: a stop in order to restart gives %v", name, got)
		}
	}
}
