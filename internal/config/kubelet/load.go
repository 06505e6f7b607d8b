package kubelet

import (
	"errors"
	"fmt"
	"path/filepath"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"berth/internal/config/features"
)

// Options are the checked command line and configuration of a kubelet.
type Options struct {
	*CommandLine
	Configuration *kubeletconfig.KubeletConfiguration // with the kubelet's defaults for fields that were not set
	Gates         features.Gates
	// Warnings name the flags and fields that were set and have no effect, and unknown fields of
	// files.
	Warnings []string
}

// Machine holds the facts of the machine that the validation depends on.
type Machine struct {
	Swap     bool // whether swap is in use
	CgroupV1 bool
}

// Load merges the kubelet's defaults, --config, the drop-ins of --config-dir and the flags of the command line, in
// this order, and validates the result. It returns all validation errors at once.
func Load(c *CommandLine, m Machine) (*Options, error) {
	l := &loader{commandLine: c}
	base, err := l.base()
	if err != nil {
		return nil, err
	}
	if err := l.dropIns(base); err != nil {
		return nil, err
	}
	l.flags(base)
	k, gates, err := complete(base)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(validate(k, gates, m), validateFlags(c)); err != nil {
		return nil, err
	}
	if err := l.effects(k, gates); err != nil {
		return nil, err
	}
	k.APIVersion, k.Kind = kubeletconfig.SchemeGroupVersion.String(), kind
	return &Options{CommandLine: c, Configuration: k, Gates: gates, Warnings: l.warnings}, nil
}

const kind = "KubeletConfiguration"

// loader merges the sources of one configuration.
type loader struct {
	commandLine *CommandLine
	warnings    []string
}

// base returns the configuration before drop-ins: that of --config, or the defaults of a kubelet without one.
func (l *loader) base() (tree, error) {
	file := l.commandLine.String("config")
	fields := tree{}
	if file != "" {
		var err error
		if fields, err = l.read(file, true); err != nil {
			return nil, fmt.Errorf("configuration file %w", err)
		}
	}
	k, _, err := complete(fields)
	if err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", file, err)
	}
	if file == "" {
		setLegacyDefaults(k)
	} else {
		absolute, err := filepath.Abs(file)
		if err != nil {
			return nil, fmt.Errorf("configuration file %s: %w", file, err)
		}
		resolvePaths(k, filepath.Dir(absolute))
	}
	mergeEviction(k)
	out, err := treeOf(k)
	if err == nil && l.commandLine.String("config-dir") == "" {
		keepEmpty(out, fields)
	}
	return out, err
}

// keepEmpty sets the lists and maps again that a file sets to an empty value, which is not their default. It is
// not called if there are drop-ins: then the kubelet loses empty values.
func keepEmpty(to, fields tree) {
	for name, value := range fields {
		switch v := value.(type) {
		case []any:
			if len(v) == 0 {
				to[name] = v
			}
		case map[string]any:
			if len(v) == 0 {
				to[name] = v
			}
		}
	}
}

// mergeEviction sets the kubelet's thresholds if none are set, or adds the missing ones if
// mergeDefaultEvictionSettings is set.
func mergeEviction(k *kubeletconfig.KubeletConfiguration) {
	if k.EvictionHard != nil && !*k.MergeDefaultEvictionSettings {
		return
	}
	all := map[string]string{}
	for _, some := range []map[string]string{evictionHard, k.EvictionHard} {
		for signal, threshold := range some {
			all[signal] = threshold
		}
	}
	k.EvictionHard = all
}

// resolvePaths makes relative paths of a configuration file relative to its folder.
func resolvePaths(k *kubeletconfig.KubeletConfiguration, dir string) {
	paths := []*string{&k.StaticPodPath, &k.Authentication.X509.ClientCAFile, &k.TLSCertFile, &k.TLSPrivateKeyFile, &k.VolumePluginDir, &k.PodLogsDir}
	if k.ResolverConfig != nil {
		paths = append(paths, k.ResolverConfig)
	}
	for _, path := range paths {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
}

// flags sets the fields of the flags that were given. Feature gates are added to those of the
// files.
func (l *loader) flags(into tree) {
	for _, f := range allFlags() {
		value, isGiven := l.commandLine.given[f.Name]
		if !isGiven || f.Field == "" {
			continue
		}
		if gates, ok := value.(map[string]bool); ok {
			for name, enabled := range gates {
				into.set(f.Field+"."+name, enabled)
			}
			continue
		}
		into.set(f.Field, value)
	}
}

// complete decodes fields and sets the defaults of the missing ones.
func complete(fields tree) (*kubeletconfig.KubeletConfiguration, features.Gates, error) {
	k, err := fields.configuration()
	if err != nil {
		return nil, nil, err
	}
	gates, err := features.New(k.FeatureGates)
	if err != nil {
		return nil, nil, fmt.Errorf("featureGates (--feature-gates): %w", err)
	}
	setDefaults(k, gates)
	return k, gates, nil
}
