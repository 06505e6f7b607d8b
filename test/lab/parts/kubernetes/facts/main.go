// Command facts prints facts about the kubelet, as JSON: its flags, feature gates, defaults and reasons of events, and which of
// the given configurations it refuses. They are compared with berth's own tables, which can't be done in one program: berth is
// built without k8s.io/kubernetes.
//
//	go run ./facts CASES >upstream.json
//
// CASES is a YAML file that maps names to the fields of a KubeletConfiguration.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	internalconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	"sigs.k8s.io/yaml"
)

// facts is the document that is printed.
type facts struct {
	Flags    map[string]flag               `json:"flags"`
	Gates    map[string]gate               `json:"gates"`
	Defaults *v1beta1.KubeletConfiguration `json:"defaults"`
	Eviction map[string]string             `json:"evictionHard"`
	Refused  map[string]bool               `json:"refused"` // the cases by name
	Events   []string                      `json:"events"`  // the reasons of events
}

type flag struct {
	Shorthand string `json:"shorthand,omitempty"`
	Type      string `json:"type"`
	Default   string `json:"default"`
	Bare      string `json:"bare,omitempty"` // the value of the flag without a value
}

type gate struct {
	Default bool   `json:"default"`
	Stage   string `json:"stage"`
	Locked  bool   `json:"locked,omitempty"`
}

func main() {
	text, err := collect(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	os.Stdout.Write(text)
}

// collect returns the facts as JSON, with the verdicts on the cases of a file.
func collect(casesFile string) ([]byte, error) {
	if err := logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate); err != nil { // as the kubelet's command does
		return nil, err
	}
	out := facts{Flags: map[string]flag{}, Gates: map[string]gate{}, Defaults: &v1beta1.KubeletConfiguration{}, Eviction: eviction.DefaultEvictionHard}
	server, err := options.NewKubeletServer()
	if err != nil {
		return nil, err
	}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	server.AddFlags(set)
	options.AddGlobalFlags(set)
	set.VisitAll(func(f *pflag.Flag) {
		out.Flags[f.Name] = flag{Shorthand: f.Shorthand, Type: f.Value.Type(), Default: f.DefValue, Bare: f.NoOptDefVal}
	})
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		out.Gates[string(name)] = gate{Default: spec.Default, Stage: stage(spec), Locked: spec.LockToDefault}
	}
	types, _, err := scheme.NewSchemeAndCodecs()
	if err != nil {
		return nil, err
	}
	types.Default(out.Defaults)
	if out.Refused, err = judge(casesFile); err != nil {
		return nil, err
	}
	if out.Events, err = eventReasons(); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(out, "", "  ")
	return append(text, '\n'), err
}

func stage(spec featuregate.FeatureSpec) string {
	if spec.PreRelease == featuregate.GA {
		return "GA"
	}
	return string(spec.PreRelease)
}

// judge tells which cases the kubelet refuses. A fresh gate is used for each.
func judge(casesFile string) (map[string]bool, error) {
	text, err := os.ReadFile(casesFile)
	if err != nil {
		return nil, err
	}
	cases := map[string]json.RawMessage{}
	if err := yaml.Unmarshal(text, &cases); err != nil {
		return nil, err
	}
	types, _, err := scheme.NewSchemeAndCodecs()
	if err != nil {
		return nil, err
	}
	refused := map[string]bool{}
	for name, fields := range cases {
		versioned, internal := &v1beta1.KubeletConfiguration{}, &internalconfig.KubeletConfiguration{}
		if err := json.Unmarshal(fields, versioned); err != nil {
			return nil, fmt.Errorf("case %q: %w", name, err)
		}
		versioned.FailCgroupV1 = new(bool) // the verdict does not depend on this machine
		gates := versioned.FeatureGates
		versioned.FeatureGates = nil // defaults are set by the gates of the process
		types.Default(versioned)
		versioned.FeatureGates = gates
		if err := types.Convert(versioned, internal, nil); err != nil {
			return nil, fmt.Errorf("case %q: %w", name, err)
		}
		refused[name] = validation.ValidateKubeletConfiguration(internal, utilfeature.DefaultFeatureGate) != nil
	}
	return refused, nil
}
