package render

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type variable struct{ name, value string }

// environment resolves the variables of a container in their order: a later one
// may use an earlier one, and the last of a name wins.
func environment(p *v1.Pod, c *v1.Container, n Node) []variable {
	var out []variable
	for _, e := range c.Env {
		value := expand(e.Value, out)
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			value = field(p, e.ValueFrom.FieldRef.FieldPath, n)
		}
		out = append(out, variable{e.Name, value})
	}
	return out
}

// field reads what a container may know of its pod before the pod runs.
func field(p *v1.Pod, path string, n Node) string {
	switch path {
	case "metadata.name":
		return p.Name
	case "metadata.namespace":
		return p.Namespace
	case "metadata.uid":
		return string(p.UID)
	case "spec.nodeName":
		return n.Name
	default:
		return "" // admission has refused all others
	}
}

func keyValues(vars []variable) []*runtimeapi.KeyValue {
	last := map[string]int{}
	for i, v := range vars {
		last[v.name] = i
	}
	var out []*runtimeapi.KeyValue
	for i, v := range vars {
		if last[v.name] == i {
			out = append(out, &runtimeapi.KeyValue{Key: v.name, Value: []byte(v.value)})
		}
	}
	return out
}

func expandAll(in []string, vars []variable) []string {
	if in == nil {
		return nil
	}
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = expand(s, vars)
	}
	return out
}

// maxString is the longest argument or variable that Linux hands to a program.
const maxString = 128 << 10

// expand replaces $(NAME) by the value of NAME. $$ stands for a dollar sign, and
// a name that is not known is left as it is. So are those with which the text
// would be longer than any program can be given: a few variables that double one
// another would fill the memory.
func expand(s string, vars []variable) string {
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

func lookup(name string, vars []variable) (string, bool) {
	for i := len(vars) - 1; i >= 0; i-- {
		if vars[i].name == name {
			return vars[i].value, true
		}
	}
	return "", false
}
