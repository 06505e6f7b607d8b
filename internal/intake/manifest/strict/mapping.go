package strict

import (
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// pair is one field of a mapping.
type pair struct{ key, value *yaml.Node }

// mapping writes a mapping. place returns the type and the path of a field, and false if the
// field is to be left out.
func (w *walker) mapping(n *yaml.Node, at *field.Path, depth int, place func(pair) (reflect.Type, *field.Path, bool)) {
	if n.Kind != yaml.MappingNode {
		w.rejectValue(n, at, "must be a mapping of names to values, but is %s", w.describe(n))
		return
	}
	w.out.WriteByte('{')
	first := true
	for _, p := range w.pairs(n, at, depth) {
		t, path, ok := place(p)
		if !ok {
			continue
		}
		if !first {
			w.out.WriteByte(',')
		}
		first = false
		w.text(p.key.Value)
		w.out.WriteByte(':')
		w.value(p.value, t, path, depth+1)
	}
	w.out.WriteByte('}')
}

// pairs returns the fields of a mapping, including the fields of merge keys (<<). A field that is
// written out wins over a merged one.
func (w *walker) pairs(n *yaml.Node, at *field.Path, depth int) []pair {
	var own []pair
	var merges []*yaml.Node
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == tagNull:
			w.addProblem(n.Content[i], at, "a field name must be text, but is %s", w.describe(key))
		case key.ShortTag() == tagMerge:
			merges = append(merges, value)
		case seen[key.Value]:
			w.add(n.Content[i], at.Child(key.Value), Error{Doubled: true, Message: "duplicate field: it is already set above"})
			earlier := slices.IndexFunc(own, func(p pair) bool { return p.key.Value == key.Value })
			own[earlier].value = value
		default:
			seen[key.Value] = true
			own = append(own, pair{key, value})
		}
	}
	for _, m := range merges {
		for _, p := range w.merged(m, at, depth+1) {
			if !seen[p.key.Value] {
				seen[p.key.Value] = true
				own = append(own, p)
			}
		}
	}
	return own
}

// merged returns the fields of a merge key, whose value is a mapping or a list of mappings. Earlier
// mappings win over later ones.
func (w *walker) merged(n *yaml.Node, at *field.Path, depth int) []pair {
	from := n
	n = resolve(n)
	if depth > maxDepth || !w.countAliased(1+len(n.Content)) {
		w.addProblem(from, at, "the merge keys in the text expand to too many values")
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		return w.pairs(n, at, depth)
	case yaml.SequenceNode:
		var all []pair
		for _, c := range n.Content {
			all = append(all, w.merged(c, at, depth+1)...)
		}
		return all
	default:
		w.addProblem(n, at, "a merge key needs a mapping, but has %s", w.describe(n))
		return nil
	}
}
