package kubelet

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"berth/internal/config/features"
)

// Honoured reports whether a field of the configuration of 'berth run' has an effect: a single field such as maxPods,
// or any field of a struct such as authentication.
func Honoured(name string) bool {
	for path, state := range fields {
		if state.Effect == InEffect && (path == name || strings.HasPrefix(path, name+".")) {
			return true
		}
	}
	return false
}

// effects warns of flags and fields that were set and have no effect, and refuses the dangerous ones.
func (l *loader) effects(k *kubeletconfig.KubeletConfiguration, gates features.Gates) error {
	set, err := treeOf(k)
	if err != nil {
		return err
	}
	normal, err := defaults()
	if err != nil {
		return err
	}
	var errs []error
	judge := func(what string, s State) {
		switch s.Effect {
		case NoEffect:
			l.warnings = append(l.warnings, fmt.Sprintf("%s has no effect: %s", what, s.Reason))
		case Refused:
			errs = append(errs, fmt.Errorf("%s: %s", what, s.Reason))
		case InEffect, AsKubelet:
		}
	}
	for _, path := range fieldPaths() {
		if value := set.get(path); value != nil && !reflect.DeepEqual(value, normal.get(path)) {
			judge(path+flagOf(path), fields[path])
		}
	}
	for _, f := range allFlags() {
		if value, isGiven := l.commandLine.given[f.Name]; isGiven && f.Field == "" && fmt.Sprint(value) != f.Default {
			judge("--"+f.Name, f.State)
		}
	}
	if names := gates.WithoutEffect(); len(names) > 0 {
		l.warnings = append(l.warnings, "feature gates without effect: "+strings.Join(names, ", "))
	}
	slices.Sort(l.warnings)
	return errors.Join(errs...)
}

// flagOf returns " (--name)" if a flag sets the field.
func flagOf(path string) string {
	for _, f := range allFlags() {
		if f.Field == path {
			return " (--" + f.Name + ")"
		}
	}
	return ""
}
