package kubelet

import (
	"encoding/json"
	"fmt"
	"strings"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

const (
	// Version is the release of Kubernetes that the agent is compatible with.
	Version = "v1.36.3"
	// previousMinor is the only release whose hidden metrics a kubelet can show.
	previousMinor = "1.35"
)

// HelpText returns the output of 'kubelet --help'.
func (c *CommandLine) HelpText() string {
	return `The kubelet runs the pods of this machine: those that the API server assigns to this node, and those of a manifest folder
or a URL. This one is berth, which was started as kubelet.

Most flags set a field of the configuration in --config, and win over it.

Usage:
  kubelet [flags]

Flags:
` + c.Usage()
}

// usage describes a flag in one line.
func usage(f Flag) string {
	text := f.Usage
	if f.Field != "" {
		text = "sets " + f.Field + " of the configuration"
	}
	if s := f.state(); s.Effect == NoEffect || s.Effect == Refused {
		text += fmt.Sprintf(" (%s: %s)", s.Effect, s.Reason)
	}
	return text
}

// defaults returns the kubelet's default of each field.
func defaults() (tree, error) {
	k := &kubeletconfig.KubeletConfiguration{}
	setDefaults(k, nil)
	k.EvictionHard = evictionHard
	return treeOf(k)
}

// defaultText returns the default of a flag as text. normal holds the defaults of fields.
func defaultText(f Flag, normal tree) string {
	if f.Field == "" {
		return f.Default
	}
	return valueText(normal.get(f.Field))
}

// valueText returns the value of a field as it is written on a command line.
func valueText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case []any:
		var words []string
		for _, word := range v {
			words = append(words, fmt.Sprint(word))
		}
		return strings.Join(words, ",")
	}
	text, _ := json.Marshal(value)
	return string(text)
}
