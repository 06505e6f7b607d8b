package kubelet

import (
	"bytes"
	"encoding/json"
	"strings"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// tree is a KubeletConfiguration as decoded JSON: a field that was not set is missing.
type tree map[string]any

// treeOf returns the fields of a configuration.
func treeOf(k *kubeletconfig.KubeletConfiguration) (tree, error) {
	text, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	return parseTree(text)
}

// parseTree decodes JSON. Numbers keep their text.
func parseTree(text []byte) (tree, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	out := tree{}
	err := decoder.Decode(&out)
	return out, err
}

// configuration returns the fields as a KubeletConfiguration.
func (t tree) configuration() (*kubeletconfig.KubeletConfiguration, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	out := &kubeletconfig.KubeletConfiguration{}
	return out, json.Unmarshal(text, out)
}

// merge applies a JSON merge patch (RFC 7396): objects are merged, other values are replaced, null
// removes.
func merge(to, patch map[string]any) {
	for name, value := range patch {
		if value == nil {
			delete(to, name)
			continue
		}
		object, isObject := value.(map[string]any)
		if !isObject {
			to[name] = value
			continue
		}
		below, isObject := to[name].(map[string]any)
		if !isObject {
			below = map[string]any{}
			to[name] = below
		}
		merge(below, object)
	}
}

// get returns the value at a path such as authentication.x509.clientCAFile, or nil.
func (t tree) get(path string) any {
	var at any = map[string]any(t)
	for name := range strings.SplitSeq(path, ".") {
		object, isObject := at.(map[string]any)
		if !isObject {
			return nil
		}
		at = object[name]
	}
	return at
}

// set replaces the value at a path.
func (t tree) set(path string, value any) {
	at := map[string]any(t)
	for {
		name, rest, more := strings.Cut(path, ".")
		if !more {
			at[name] = value
			return
		}
		below, isObject := at[name].(map[string]any)
		if !isObject {
			below = map[string]any{}
			at[name] = below
		}
		at, path = below, rest
	}
}
