package plan

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// verdict is the consequence of the end of a container.
type verdict int

const (
	final      verdict = iota // it stays ended
	restart                   // it is started again
	restartAll                // every container of the pod is started again
)

// verdictOn applies the restart rules to a dead container: its own rules for exit
// codes first, then its own policy, then that of the pod. A container that the agent stopped in order to run
// it again has no say in that.
func verdictOn(p *v1.Pod, spec *v1.Container, dead *pod.Container) verdict {
	if dead.ToRestart {
		return restart
	}
	for _, rule := range spec.RestartPolicyRules {
		if !matches(rule.ExitCodes, dead.ExitCode) {
			continue
		}
		if rule.Action == v1.ContainerRestartRuleActionRestartAllContainers {
			return restartAll
		}
		return restart
	}
	failed := dead.ExitCode != 0
	again := false
	switch policyOf(p, spec) {
	case v1.ContainerRestartPolicyNever:
	case v1.ContainerRestartPolicyOnFailure:
		again = failed
	default:
		// An init container that succeeded is done. A sidecar never is.
		again = failed || pod.IsSidecar(spec) || !pod.IsInit(p, spec.Name)
	}
	if again {
		return restart
	}
	return final
}

func policyOf(p *v1.Pod, spec *v1.Container) v1.ContainerRestartPolicy {
	if spec.RestartPolicy != nil {
		return *spec.RestartPolicy
	}
	return v1.ContainerRestartPolicy(p.Spec.RestartPolicy)
}

// mayComeBack reports whether a container that was stopped with its sandbox may be started again.
func (v *view) mayComeBack(spec *v1.Container) bool {
	return policyOf(v.want, spec) != v1.ContainerRestartPolicyNever
}

func matches(on *v1.ContainerRestartRuleOnExitCodes, code int32) bool {
	if on == nil {
		return false
	}
	listed := slices.Contains(on.Values, code)
	switch on.Operator {
	case v1.ContainerRestartRuleOnExitCodesOpIn:
		return listed
	case v1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !listed
	default:
		return false
	}
}
