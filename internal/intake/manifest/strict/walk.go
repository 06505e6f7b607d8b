package strict

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth/internal/lib/nearest"
)

const (
	maxDepth   = 100     // of nesting; a pod needs about fifteen
	maxAliased = 100_000 // values that aliases may add
	maxErrors  = 20      // of one document; more would not help
)

const (
	tagString = "!!str"
	tagInt    = "!!int"
	tagFloat  = "!!float"
	tagBool   = "!!bool"
	tagNull   = "!!null"
	tagTime   = "!!timestamp"
	tagMerge  = "!!merge"
)

// walker writes a node as the JSON that a Go type expects, and collects mistakes.
type walker struct {
	lineOffset int
	hideValues bool // no error may repeat a value
	out        bytes.Buffer
	errs       []Error
	// How many of errs keep a lenient reader from going on, and how many do not. Each is counted by itself, so that
	// many of one do not hide the other.
	serious, ignorable int
	fields             map[reflect.Type]map[string]reflect.Type

	inAlias int // how many aliases are being expanded around the current value
	aliased int // how many values the aliases so far have added
}

// rejectValue adds a mistake and writes null instead of the value, so that the JSON stays well
// formed.
func (w *walker) rejectValue(n *yaml.Node, at *field.Path, format string, args ...any) {
	w.addProblem(n, at, format, args...)
	w.out.WriteString("null")
}

func (w *walker) addProblem(n *yaml.Node, at *field.Path, format string, args ...any) {
	w.add(n, at, Error{Message: fmt.Sprintf(format, args...)})
}

func (w *walker) add(n *yaml.Node, at *field.Path, e Error) {
	count := &w.serious
	if e.Unknown || e.Doubled {
		count = &w.ignorable
	}
	if *count++; *count > maxErrors {
		return
	}
	e.Line = n.Line + w.lineOffset
	if at != nil {
		e.Field = at.String()
	}
	w.errs = append(w.errs, e)
}

func (w *walker) value(n *yaml.Node, t reflect.Type, at *field.Path, depth int) {
	if depth > maxDepth {
		w.rejectValue(n, at, "nested too deeply")
		return
	}
	if n.Kind == yaml.AliasNode {
		w.inAlias++
		defer func() { w.inAlias-- }()
		n = n.Alias
	}
	if w.inAlias > 0 && !w.countAliased(1) {
		w.rejectValue(n, at, "the aliases in the text expand to too many values")
		return
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == tagNull {
		w.out.WriteString("null")
		return
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[Skip]():
		w.out.WriteString("null")
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		w.selfDecoding(n, t, at, depth)
	case t.Kind() == reflect.Struct:
		w.mapping(n, at, depth, func(p pair) (reflect.Type, *field.Path, bool) {
			ft, ok := w.fieldsOf(t)[p.key.Value]
			path := at.Child(p.key.Value)
			if !ok {
				w.add(p.key, path, Error{Unknown: true, Message: "unknown field" + spellingHint(w.fieldsOf(t), p.key.Value)})
			}
			return ft, path, ok
		})
	case t.Kind() == reflect.Map:
		w.mapping(n, at, depth, func(p pair) (reflect.Type, *field.Path, bool) {
			return t.Elem(), at.Key(p.key.Value), true
		})
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		w.bytes(n, at)
	case t.Kind() == reflect.Slice:
		w.list(n, t.Elem(), at, depth)
	case t.Kind() == reflect.Interface:
		w.untyped(n, at, depth)
	default:
		w.scalar(n, t, at)
	}
}

// countAliased counts values that an alias has added, and returns false if they are too many.
func (w *walker) countAliased(values int) bool {
	w.aliased += values
	return w.aliased <= maxAliased
}

// spellingHint returns a hint for an unknown field that is written in another case, or misspelt.
func spellingHint(fields map[string]reflect.Type, name string) string {
	for known := range fields {
		if strings.EqualFold(known, name) {
			return fmt.Sprintf(": it is spelled %q", known)
		}
	}
	return nearest.Hint(name, "", slices.Collect(maps.Keys(fields)))
}

// fieldsOf maps the JSON names of a struct's fields to their types.
func (w *walker) fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := w.fields[t]; ok {
		return known
	}
	known := make(map[string]reflect.Type)
	w.fields[t] = known
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name != "":
			known[name] = f.Type
		case f.Anonymous:
			for inner, ft := range w.fieldsOf(f.Type) {
				known[inner] = ft
			}
		default:
			known[f.Name] = f.Type
		}
	}
	return known
}

// selfDecoding writes a value of a type that is a json.Unmarshaler, such as a quantity or a time,
// and checks it by unmarshalling it.
func (w *walker) selfDecoding(n *yaml.Node, t reflect.Type, at *field.Path, depth int) {
	begin, before := w.out.Len(), len(w.errs)
	w.untyped(n, at, depth)
	if len(w.errs) > before {
		return
	}
	raw := w.out.Bytes()[begin:]
	if err := json.Unmarshal(raw, reflect.New(t).Interface()); err != nil {
		w.addProblem(n, at, "invalid value %s: %s", w.quote(string(raw)), w.messageOf(err))
	}
}

// untyped writes a value without a Go type: of an interface, or of a json.Unmarshaler.
func (w *walker) untyped(n *yaml.Node, at *field.Path, depth int) {
	anything := reflect.TypeFor[any]()
	switch n.Kind {
	case yaml.MappingNode:
		w.mapping(n, at, depth, func(p pair) (reflect.Type, *field.Path, bool) {
			return anything, at.Child(p.key.Value), true
		})
	case yaml.SequenceNode:
		w.list(n, anything, at, depth)
	default:
		w.plainScalar(n, at)
	}
}

func (w *walker) list(n *yaml.Node, elem reflect.Type, at *field.Path, depth int) {
	if n.Kind != yaml.SequenceNode {
		w.rejectValue(n, at, "must be a list, but is %s", w.describe(n))
		return
	}
	w.out.WriteByte('[')
	for i, c := range n.Content {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.value(c, elem, at.Index(i), depth+1)
	}
	w.out.WriteByte(']')
}

func (w *walker) bytes(n *yaml.Node, at *field.Path) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != tagString {
		w.rejectValue(n, at, "must be text in base64, but is %s", w.describe(n))
		return
	}
	if _, err := base64.StdEncoding.DecodeString(n.Value); err != nil {
		w.rejectValue(n, at, "must be text in base64: %v", err) // err names an offset, not a value
		return
	}
	w.text(n.Value)
}
