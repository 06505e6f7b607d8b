// Package features has the feature gates of the kubelet by name, and which of them are enabled on this node.
//
// The table of gates is generated from upstream's facts (gates_test.go). A gate has an effect only if some part of
// berth reads it: Effective lists these gates.
package features

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"berth/internal/lib/nearest"
)

// Stage is how mature a feature is.
type Stage string

// The stages of features.
const (
	Alpha      Stage = "ALPHA"
	Beta       Stage = "BETA"
	GA         Stage = "GA"
	Deprecated Stage = "DEPRECATED"
)

// Gate is one feature gate. A locked gate can only be set to its default.
type Gate struct {
	Default bool
	Stage   Stage
	Locked  bool
}

// Two names stand for all gates of a stage.
const (
	allAlpha = "AllAlpha"
	allBeta  = "AllBeta"
)

// Effective are the gates that change how berth works. Gates that only guard the values of configuration fields are
// among them.
var Effective = []string{
	"CustomCPUCFSQuotaPeriod", "ExtendWebSocketsToKubelet", "GracefulNodeShutdown", "GracefulNodeShutdownBasedOnPodPriority", "ImageMaximumGCAge",
	"KubeletCrashLoopBackOffMax", "KubeletEnsureSecretPulledImages", "MemoryQoS", "NodeDeclaredFeatures", "NodeLogQuery", "NodeSwap",
	"RestartAllContainersOnContainerExits", "RotateKubeletServerCertificate", "SELinuxMount",
}

// Gates are the gates that were set. The others have their defaults.
type Gates map[string]bool

// New checks the gates that a user set.
func New(given map[string]bool) (Gates, error) {
	out := Gates{}
	var errs []error
	for _, stage := range []struct {
		name string
		of   Stage
	}{{allAlpha, Alpha}, {allBeta, Beta}} {
		enabled, isGiven := given[stage.name]
		if !isGiven {
			continue
		}
		for name, gate := range gates {
			if gate.Stage == stage.of && !gate.Locked {
				out[name] = enabled
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		gate, known := gates[name]
		switch {
		case !known:
			errs = append(errs, fmt.Errorf("unrecognized feature gate: %s%s", name, nearest.Hint(name, "", slices.Collect(maps.Keys(gates)))))
		case gate.Locked && given[name] != gate.Default:
			errs = append(errs, fmt.Errorf("cannot set feature gate %s to %t, feature is locked to %t", name, given[name], gate.Default))
		default:
			out[name] = given[name]
		}
	}
	return out, errors.Join(errs...)
}

// Enabled reports whether a feature is enabled. An unknown name is not.
func (g Gates) Enabled(name string) bool {
	if enabled, isGiven := g[name]; isGiven {
		return enabled
	}
	return gates[name].Default
}

// Names lists all gates.
func Names() []string { return slices.Sorted(maps.Keys(gates)) }

// StageOf returns the stage of a gate.
func StageOf(name string) Stage { return gates[name].Stage }

// WithoutEffect lists the gates that were set to another value than their default, and that no part of berth reads.
func (g Gates) WithoutEffect() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(g)) {
		if g[name] != gates[name].Default && !slices.Contains(Effective, name) && name != allAlpha && name != allBeta {
			out = append(out, name)
		}
	}
	return out
}
