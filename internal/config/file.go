package config

import (
	"errors"
	"fmt"
	"slices"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"berth/internal/config/kubelet"
	"berth/internal/intake/manifest/strict"
)

// readFile decodes a KubeletConfiguration and names the fields that are set in it
// and not honoured.
func readFile(data []byte) (*kubeletconfig.KubeletConfiguration, []string, error) {
	documents, problems := strict.Documents(data)
	if len(problems) > 0 {
		return nil, nil, named(problems)
	}
	if len(documents) != 1 {
		return nil, nil, fmt.Errorf("it holds %d documents, and must hold one KubeletConfiguration", len(documents))
	}
	d := documents[0]
	if kind := d.Text("apiVersion") + " " + d.Text("kind"); kind != kubeletconfig.SchemeGroupVersion.String()+" KubeletConfiguration" {
		return nil, nil, fmt.Errorf("line %d: apiVersion and kind are %q, want %s KubeletConfiguration", d.Line(), kind, kubeletconfig.SchemeGroupVersion)
	}
	var c kubeletconfig.KubeletConfiguration
	if problems := d.Decode(&c); len(problems) > 0 {
		return nil, nil, named(problems)
	}
	ignored, err := notHonoured(data)
	return &c, ignored, err
}

// named puts its line before each mistake.
func named(mistakes []strict.Error) error {
	var all []error
	for _, m := range mistakes {
		all = append(all, fmt.Errorf("line %d: %w", m.Line, m))
	}
	return errors.Join(all...)
}

// notHonoured names the fields that a file sets to no effect.
func notHonoured(data []byte) ([]string, error) {
	var set map[string]any
	if err := yaml.Unmarshal(data, &set); err != nil {
		return nil, err
	}
	var out []string
	for field, value := range set {
		if field != "logging" {
			out = append(out, field)
			continue
		}
		if fields, ok := value.(map[string]any); ok {
			for name := range fields {
				out = append(out, field+"."+name)
			}
		}
	}
	out = slices.DeleteFunc(out, kubelet.Honoured)
	slices.Sort(out)
	return out, nil
}
