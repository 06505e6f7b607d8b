// Package salvage decodes state files that hold many entries, of which some may be damaged, or
// written by another version of berth: an entry that can't be decoded costs no other entry.
//
// It is pure. Package statefile reads the files, and logs the errors.
package salvage

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Entries decodes a JSON object whose values are all of one type. The map is never nil, and holds
// the entries that could be decoded; the error names the others.
func Entries[K ~string, V any](text []byte) (map[K]V, error) {
	out := map[K]V{}
	var raw map[K]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return out, err
	}
	var unread error
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		var value V
		if err := json.Unmarshal(raw[key], &value); err != nil {
			unread = errors.Join(unread, fmt.Errorf("%.100q: %w", key, err))
			continue
		}
		out[key] = value
	}
	return out, unread
}

// Fields decodes a JSON object into a struct. A field that can't be decoded keeps the value that it
// had, and the error names it. Fields that the struct does not have are left out.
func Fields[T any](text []byte, into *T) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	var unread error
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		at := fieldNamed(reflect.ValueOf(into).Elem(), name)
		if !at.IsValid() {
			continue
		}
		value := reflect.New(at.Type())
		if err := json.Unmarshal(raw[name], value.Interface()); err != nil {
			unread = errors.Join(unread, fmt.Errorf("%s: %w", name, err))
			continue
		}
		at.Set(value.Elem())
	}
	return unread
}

// fieldNamed returns the field that encoding/json decodes under a name, or the zero Value.
func fieldNamed(s reflect.Value, name string) reflect.Value {
	for i := range s.NumField() {
		f := s.Type().Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && tag != "-" && (tag == name || tag == "" && f.Name == name) {
			return s.Field(i)
		}
	}
	return reflect.Value{}
}
