// Package salvage reads state files that hold many entries, of which some may be damaged, or
// written by another version of berth: one that can't be read costs that one and no other.
//
// It is pure: who has read the file calls it, and logs what it returns.
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

// Entries reads a JSON object whose values are all of one kind. The map is never nil, and
// holds what could be read; the error names the others.
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

// Fields reads a JSON object into a struct. A field that can't be read keeps the value that
// it had; the error names such fields. One that the struct does not have is left out.
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

// fieldNamed is the field that encoding/json reads under that name, or none.
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
