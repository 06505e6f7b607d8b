// Package strict reads YAML or JSON into Go values and names the line of every
// mistake in it: a syntax error, an unknown or doubled field, a value of the
// wrong type.
//
// Documents cuts a text into documents. A document is decoded on its own, so a
// bad one leaves its neighbours alone. Decode follows the Go type of its target:
// that is how it knows which field a mistake is in, and that `yes` is a bool in
// one place and a text in another.
//
// The package is pure. Its input may come from anywhere: nesting and the
// expansion of YAML aliases are bounded.
package strict

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Error is one mistake in a text.
type Error struct {
	Line    int    // counted from 1
	Field   string // as in spec.containers[0].image; empty if the text could not be read that far
	Message string
}

func (e Error) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// Skip is the type of a field whose content is decoded on its own, see Items.
type Skip struct{}

// Document is one document of a text.
type Document struct {
	root  *yaml.Node
	shift int // lines of the text that come before what the parser was given
}

// IsObject tells whether the document is a mapping, as every Kubernetes object is.
func (d Document) IsObject() bool { return resolve(d.root).Kind == yaml.MappingNode }

// Line is where the document begins.
func (d Document) Line() int { return d.root.Line + d.shift }

// Text returns the scalar at a path of field names, or "" if there is none.
func (d Document) Text(path ...string) string {
	n := d.root
	for _, name := range path {
		_, n = child(resolve(n), name)
		if n == nil {
			return ""
		}
	}
	n = resolve(n)
	if n.Kind != yaml.ScalarNode || n.ShortTag() == tagNull {
		return ""
	}
	return n.Value
}

// Items returns the elements of a list field as documents of their own. It is
// false if there is no such field or it is no list; null is an empty list.
func (d Document) Items(name string) ([]Document, bool) {
	_, n := child(resolve(d.root), name)
	if n == nil {
		return nil, false
	}
	n = resolve(n)
	if n.Kind != yaml.SequenceNode {
		return nil, n.ShortTag() == tagNull
	}
	items := make([]Document, 0, len(n.Content))
	for _, c := range n.Content {
		items = append(items, Document{root: c, shift: d.shift})
	}
	return items, true
}

// LineOf returns the line of a field path such as spec.containers[0].image. For
// a field that is not there it is the line of the nearest one around it.
func (d Document) LineOf(path string) int {
	n, line := resolve(d.root), d.Line()
	for path != "" {
		var step string
		step, path = cutStep(path)
		key, next := child(n, step)
		if next == nil {
			break
		}
		line = key.Line + d.shift
		n = resolve(next)
	}
	return line
}

// cutStep takes the first step off a field path: a field name, or what stands
// between brackets.
func cutStep(path string) (step, rest string) {
	if strings.HasPrefix(path, "[") {
		step, rest, _ = strings.Cut(path[1:], "]")
		return step, strings.TrimPrefix(rest, ".")
	}
	i := strings.IndexAny(path, ".[")
	if i < 0 {
		return path, ""
	}
	return path[:i], strings.TrimPrefix(path[i:], ".")
}

// Digest names what the document says: it is the same for another layout, other comments
// and another order of fields. It is empty if there is none, which is the case for keys that
// are no texts.
func (d Document) Digest() string {
	var content any
	if err := d.root.Decode(&content); err != nil {
		return ""
	}
	text, err := json.Marshal(content)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// child finds a field of a mapping or an element of a list, together with the
// node that stands for its place.
func child(n *yaml.Node, step string) (key, value *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i], n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		i, err := strconv.Atoi(step)
		if err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	}
	return nil, nil
}

// resolve follows aliases, of which the parser never makes a chain.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// Decode reads the document into a pointer. Either all of it fits and there are
// no errors, or into is to be thrown away.
func (d Document) Decode(into any) []Error { return d.decode(into, false) }

// DecodeSecret is Decode for what nobody is to see: the errors name fields and
// lines, and repeat no value.
func (d Document) DecodeSecret(into any) []Error { return d.decode(into, true) }

func (d Document) decode(into any, hide bool) []Error {
	w := walker{shift: d.shift, hide: hide, fields: make(map[reflect.Type]map[string]reflect.Type)}
	w.value(d.root, reflect.TypeOf(into).Elem(), nil, 0)
	if len(w.errs) > 0 {
		slices.SortStableFunc(w.errs, func(a, b Error) int { return cmp.Compare(a.Line, b.Line) })
		return w.errs
	}
	if err := json.Unmarshal(w.out.Bytes(), into); err != nil {
		return []Error{{Line: d.Line(), Message: "decode: " + w.messageOf(err)}}
	}
	return nil
}
