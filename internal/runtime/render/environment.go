package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/downward"
)

// References has the objects, files and facts that the variables of a container refer to. Objects
// that do not exist are left out.
type References struct {
	ConfigMaps map[string]*v1.ConfigMap // by name
	Secrets    map[string]*v1.Secret    // by name
	Services   []*v1.Service
	Files      map[EnvFile]map[string]string // the variables in files of the pod's volumes
	Facts      downward.Facts
	// Allocatable are the resources that pods may use: the limit of a container that
	// has none.
	Allocatable v1.ResourceList
}

// EnvFile is a file of environment variables in a volume of a pod.
type EnvFile struct{ Volume, Path string }

// Variable is an environment variable of a container.
type Variable struct{ Name, Value string }

// Environment resolves the variables of a container: first those of services, then envFrom, then
// env. A variable may refer to earlier ones, and the last variable of a name wins. The error
// names a missing reference.
func Environment(p *v1.Pod, c *v1.Container, r References) ([]Variable, error) {
	out := serviceVariables(p, r.Services)
	for i := range c.EnvFrom {
		more, err := r.envFromVariables(&c.EnvFrom[i])
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	for i := range c.Env {
		e := &c.Env[i]
		if e.ValueFrom == nil {
			out = append(out, Variable{e.Name, expand(e.Value, out)})
			continue
		}
		value, found, err := r.envValue(p, c, e.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", e.Name, err)
		}
		if found {
			out = append(out, Variable{e.Name, value})
		}
	}
	return out, nil
}

// envFromVariables returns the variables of an envFrom entry. Keys that can't be names
// of variables are left out, as the kubelet does it.
func (r References) envFromVariables(from *v1.EnvFromSource) ([]Variable, error) {
	var values map[string]string
	switch {
	case from.ConfigMapRef != nil:
		m, found := r.ConfigMaps[from.ConfigMapRef.Name]
		if !found {
			return nil, unlessOptional(from.ConfigMapRef.Optional, "configmap %q not found", from.ConfigMapRef.Name)
		}
		values = m.Data
	case from.SecretRef != nil:
		s, found := r.Secrets[from.SecretRef.Name]
		if !found {
			return nil, unlessOptional(from.SecretRef.Optional, "secret %q not found", from.SecretRef.Name)
		}
		values = map[string]string{}
		for key, value := range s.Data {
			values[key] = string(value)
		}
	}
	var out []Variable
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if name := from.Prefix + key; canBeName(name) {
			out = append(out, Variable{name, values[key]})
		}
	}
	return out, nil
}

// envValue resolves the valueFrom of a variable. found is false if the reference is optional and its
// object, key or file does not exist.
func (r References) envValue(p *v1.Pod, c *v1.Container, from *v1.EnvVarSource) (value string, found bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = downward.Value(p, from.FieldRef.FieldPath, r.Facts)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err = downward.Resource(p, from.ResourceFieldRef, c.Name, r.Allocatable)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		m, exists := r.ConfigMaps[ref.Name]
		if !exists {
			return "", false, unlessOptional(ref.Optional, "configmap %q not found", ref.Name)
		}
		if value, found = m.Data[ref.Key]; !found {
			err = unlessOptional(ref.Optional, "couldn't find key %s in ConfigMap %s/%s", ref.Key, p.Namespace, ref.Name)
		}
		return value, found, err
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		s, exists := r.Secrets[ref.Name]
		if !exists {
			return "", false, unlessOptional(ref.Optional, "secret %q not found", ref.Name)
		}
		data, found := s.Data[ref.Key]
		if !found {
			err = unlessOptional(ref.Optional, "couldn't find key %s in Secret %s/%s", ref.Key, p.Namespace, ref.Name)
		}
		return string(data), found, err
	case from.FileKeyRef != nil:
		ref := from.FileKeyRef
		value, found = r.Files[EnvFile{ref.VolumeName, ref.Path}][ref.Key]
		if !found {
			err = unlessOptional(ref.Optional, "couldn't find key %s in file %s of volume %s", ref.Key, ref.Path, ref.VolumeName)
		}
		return value, found, err
	default:
		return "", false, errors.New("it says nothing of where its value comes from")
	}
}

func unlessOptional(optional *bool, format string, args ...any) error {
	if optional != nil && *optional {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// canBeName reports whether name is valid for an environment variable.
func canBeName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r == '=' || r < ' ' || r > '~' })
}

// keyValues renders variables, of each name the last one.
func keyValues(vars []Variable) []*runtimeapi.KeyValue {
	last := map[string]int{}
	for i, v := range vars {
		last[v.Name] = i
	}
	var out []*runtimeapi.KeyValue
	for i, v := range vars {
		if last[v.Name] == i {
			out = append(out, &runtimeapi.KeyValue{Key: v.Name, Value: []byte(v.Value)})
		}
	}
	return out
}

// ExpandCommand expands the variables with literal values in the spec of a container. It is
// for the commands of exec probes.
func ExpandCommand(c *v1.Container, command []string) []string {
	var vars []Variable
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			vars = append(vars, Variable{e.Name, expand(e.Value, vars)})
		}
	}
	return expandAll(command, vars)
}

func expandAll(in []string, vars []Variable) []string {
	if in == nil {
		return nil
	}
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = expand(s, vars)
	}
	return out
}

// maxString is the longest argument or variable that Linux passes to a program.
const maxString = 128 << 10

// expand replaces $(NAME) by the value of NAME. $$ stands for a dollar sign, and a reference to an
// unknown variable is left as it is. So is a reference that would make the text longer than
// maxString: a few variables that double one another would fill the memory.
func expand(s string, vars []Variable) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		out.WriteString(before)
		switch {
		case !found:
			return out.String()
		case strings.HasPrefix(after, "$"):
			out.WriteByte('$')
			s = after[1:]
		case strings.HasPrefix(after, "("):
			name, rest, closed := strings.Cut(after[1:], ")")
			value, known := lookup(name, vars)
			switch {
			case !closed:
				// No name can follow, only dollar signs.
				out.WriteString("$" + strings.ReplaceAll(after, "$$", "$"))
				return out.String()
			case known && out.Len()+len(value) <= maxString:
				out.WriteString(value)
			default:
				out.WriteString("$(" + name + ")")
			}
			s = rest
		default:
			out.WriteByte('$')
			s = after
		}
	}
}

func lookup(name string, vars []Variable) (string, bool) {
	for i := len(vars) - 1; i >= 0; i-- {
		if vars[i].Name == name {
			return vars[i].Value, true
		}
	}
	return "", false
}
