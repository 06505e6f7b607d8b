package strict

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// scalar writes a text, a bool or a number as JSON for the Go type t.
func (w *walker) scalar(n *yaml.Node, t reflect.Type, at *field.Path) {
	if n.Kind != yaml.ScalarNode {
		w.rejectValue(n, at, "must be a single %s, but is %s", kindName(t), w.describe(n))
		return
	}
	tag := n.ShortTag()
	switch kindName(t) {
	case "text":
		if tag != tagString && tag != tagTime {
			w.rejectValue(n, at, "must be text, but is %s: put it in quotes", w.describe(n))
			return
		}
		w.text(n.Value)
	case "bool":
		b, ok := parseBool(n)
		if !ok {
			w.rejectValue(n, at, "must be true or false, but is %s", w.describe(n))
			return
		}
		w.out.WriteString(strconv.FormatBool(b))
	case "whole number":
		w.integer(n, t, at)
	default:
		if tag != tagInt && tag != tagFloat {
			w.rejectValue(n, at, "must be a number, but is %s", w.describe(n))
			return
		}
		w.plainScalar(n, at)
	}
}

func (w *walker) integer(n *yaml.Node, t reflect.Type, at *field.Path) {
	if n.ShortTag() != tagInt {
		w.rejectValue(n, at, "must be a whole number, but is %s", w.describe(n))
		return
	}
	// The value is written, not its text: 0644 in YAML is 420 in JSON.
	if t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uintptr {
		var u uint64
		if err := n.Decode(&u); err == nil && !t.OverflowUint(u) {
			w.out.WriteString(strconv.FormatUint(u, 10))
			return
		}
	} else {
		var i int64
		if err := n.Decode(&i); err == nil && !t.OverflowInt(i) {
			w.out.WriteString(strconv.FormatInt(i, 10))
			return
		}
	}
	w.rejectValue(n, at, "%s is too large or too small", w.quote(n.Value))
}

// plainScalar writes a scalar with the type that YAML gives it, without a Go type.
func (w *walker) plainScalar(n *yaml.Node, at *field.Path) {
	switch n.ShortTag() {
	case tagString, tagTime, tagMerge:
		w.text(n.Value)
	case tagBool:
		b, _ := parseBool(n)
		w.out.WriteString(strconv.FormatBool(b))
	case tagInt, tagFloat:
		w.number(n, at)
	default:
		w.rejectValue(n, at, "the tag %s is not supported", w.quote(n.ShortTag()))
	}
}

func (w *walker) number(n *yaml.Node, at *field.Path) {
	if json.Valid([]byte(n.Value)) {
		w.out.WriteString(n.Value)
		return
	}
	var number any
	if err := n.Decode(&number); err != nil {
		w.rejectValue(n, at, "%s is not a number: %s", w.quote(n.Value), w.messageOf(err))
		return
	}
	raw, err := json.Marshal(number)
	if err != nil {
		w.rejectValue(n, at, "must be a finite number, but is %s", w.quote(n.Value))
		return
	}
	w.out.Write(raw)
}

func (w *walker) text(s string) {
	// Text always marshals: bytes that are not UTF-8 are replaced.
	raw, _ := json.Marshal(s)
	w.out.Write(raw)
}

// parseBool parses a bool. The words of YAML 1.1, such as yes and off, count too, as in kubectl.
func parseBool(n *yaml.Node) (value, ok bool) {
	switch n.ShortTag() {
	case tagBool:
		return strings.EqualFold(n.Value, "true"), true
	case tagString:
		if n.Style != 0 {
			return false, false
		}
		switch strings.ToLower(n.Value) {
		case "yes", "on":
			return true, true
		case "no", "off":
			return false, true
		}
	}
	return false, false
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "bool"
	case reflect.Float32, reflect.Float64:
		return "number"
	default:
		return "whole number"
	}
}

// describe describes the value of a node for a message.
func (w *walker) describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if w.hideValues {
		return "something else"
	}
	value := shorten(n.Value)
	switch n.ShortTag() {
	case tagString, tagTime:
		return fmt.Sprintf("the text %q", value)
	case tagBool:
		return "the bool " + value
	case tagInt, tagFloat:
		return "the number " + value
	case tagNull:
		return "null"
	default:
		return value
	}
}

// quote quotes a value in a message, unless values are hidden.
func (w *walker) quote(s string) string {
	if w.hideValues {
		return "(hidden)"
	}
	return shorten(s)
}

// messageOf returns the text of an error of a library, unless values are hidden: the text may
// contain one.
func (w *walker) messageOf(err error) string {
	if w.hideValues {
		return "it does not fit"
	}
	return err.Error()
}

// shorten limits the length of a value that is quoted in a message.
func shorten(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
