// Package strict decodes YAML or JSON into Go values, with the line of every
// mistake: a syntax error, an unknown or duplicate field, a value of the wrong
// type.
//
// Documents splits a text into documents. Each document is decoded on its own, so
// a mistake in one does not affect the others. Decode follows the Go type of its
// target, from which it knows the field of a mistake, and that `yes` is a bool in
// one field and a text in another.
//
// The package is pure. Its input is not trusted: nesting and the expansion of YAML
// aliases are bounded.
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
	Field   string // such as spec.containers[0].image; empty for a syntax error
	Message string
	// Unknown and Doubled are mistakes that a lenient reader ignores.
	Unknown, Doubled bool
}

func (e Error) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// Skip is the type of a field that Decode leaves out, such as a list whose elements are decoded
// one by one: see Items.
type Skip struct{}

// Document is one document of a text.
type Document struct {
	root       *yaml.Node
	lineOffset int // lines of the text before the document's chunk
}

// IsObject reports whether the document is a mapping, as every Kubernetes object is.
func (d Document) IsObject() bool { return resolve(d.root).Kind == yaml.MappingNode }

// Line returns the line at which the document begins.
func (d Document) Line() int { return d.root.Line + d.lineOffset }

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

// Items returns the elements of a list field as documents of their own. It returns false if the
// document has no such field or the field is no list; null is an empty list.
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
		items = append(items, Document{root: c, lineOffset: d.lineOffset})
	}
	return items, true
}

// LineOf returns the line of a field path such as spec.containers[0].image. For a field that the
// document does not have, it is the line of the nearest field around it.
func (d Document) LineOf(path string) int {
	n, line := resolve(d.root), d.Line()
	for path != "" {
		var step string
		step, path = cutStep(path)
		key, next := child(n, step)
		if next == nil {
			break
		}
		line = key.Line + d.lineOffset
		n = resolve(next)
	}
	return line
}

// cutStep splits a field path after its first step: a field name, or the index or key in brackets.
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

// Digest returns a hash of the content of the document: layout, comments and the order of fields do
// not count. It is empty for a document with keys that are no texts.
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

// child returns a field of a mapping or an element of a list, and the node with its line: the key
// of the field, or the element itself.
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

// resolve returns the node that an alias refers to. The parser makes no alias of an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// Decode decodes the document into a pointer. After errors, the content of into is undefined.
func (d Document) Decode(into any) []Error { return d.decode(into, false) }

// DecodeSecret is Decode for secrets: the errors name fields and lines, and no values.
func (d Document) DecodeSecret(into any) []Error { return d.decode(into, true) }

// JSON returns the document as the JSON of the type that into points to. Unknown fields are not in it, and doubled ones
// have their last value. It is of no use if there are other errors.
func (d Document) JSON(into any) ([]byte, []Error) {
	w := d.walk(into, false)
	return w.out.Bytes(), w.errs
}

// walk writes the document as JSON, and collects its mistakes in the order of their lines.
func (d Document) walk(into any, hide bool) *walker {
	w := &walker{lineOffset: d.lineOffset, hideValues: hide, fields: make(map[reflect.Type]map[string]reflect.Type)}
	w.value(d.root, reflect.TypeOf(into).Elem(), nil, 0)
	slices.SortStableFunc(w.errs, func(a, b Error) int { return cmp.Compare(a.Line, b.Line) })
	return w
}

func (d Document) decode(into any, hide bool) []Error {
	w := d.walk(into, hide)
	if len(w.errs) > 0 {
		return w.errs[:min(len(w.errs), maxErrors)]
	}
	if err := json.Unmarshal(w.out.Bytes(), into); err != nil {
		return []Error{{Line: d.Line(), Message: "decode: " + w.messageOf(err)}}
	}
	return nil
}
