package kubelet

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// fieldPaths lists the fields of a KubeletConfiguration, as in authentication.x509.clientCAFile. Lists, maps and values
// with a text form of their own are one field each.
func fieldPaths() []string {
	out := leaves(reflect.TypeFor[kubeletconfig.KubeletConfiguration](), "")
	slices.Sort(out)
	return out
}

func leaves(t reflect.Type, prefix string) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return []string{prefix}
	}
	var out []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported():
		case name == "": // embedded
			out = append(out, leaves(f.Type, prefix)...)
		case prefix == "":
			out = append(out, leaves(f.Type, name)...)
		default:
			out = append(out, leaves(f.Type, prefix+"."+name)...)
		}
	}
	return out
}
