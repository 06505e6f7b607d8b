// Package printers turns objects into text: as JSON, YAML, a JSONPath, or as an outline of names and values, and puts
// times, amounts and lists into the form that users read. It knows neither commands nor flags.
package printers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

const jsonpathPrefix = "jsonpath="

// ObjectFormats returns the values of -o of 'get' commands.
func ObjectFormats() []string {
	return []string{"wide", "json", "yaml", "name", jsonpathPrefix + "..."}
}

// DocumentFormats returns the values of -o of commands that have one table.
func DocumentFormats() []string { return []string{"json", "yaml"} }

// ObjectPrinter prints values as documents in JSON or YAML, or what a JSONPath finds in them.
type ObjectPrinter struct {
	w         io.Writer
	encode    func(any) ([]byte, error)
	separator string // between two documents

	printed bool
}

// NewObjectPrinter returns the printer for a value of -o, and nil if it asks for a table or names. It is an error if
// output is none of values.
func NewObjectPrinter(w io.Writer, output string, values []string) (*ObjectPrinter, error) {
	path, isPath := strings.CutPrefix(output, jsonpathPrefix)
	known := output == "" || slices.ContainsFunc(values, func(v string) bool {
		return v == output || isPath && strings.HasPrefix(v, jsonpathPrefix)
	})
	switch {
	case !known:
		return nil, fmt.Errorf("output %q is not known: it can be any of %s", output, strings.Join(values, ", "))
	case output == "json":
		return &ObjectPrinter{w: w, encode: encodeJSON}, nil
	case output == "yaml":
		return &ObjectPrinter{w: w, encode: yaml.Marshal, separator: "---\n"}, nil
	case isPath:
		encode, err := pathEncoder(path)
		return &ObjectPrinter{w: w, encode: encode, separator: "\n"}, err
	}
	return nil, nil
}

// Print prints a value as a document.
func (o *ObjectPrinter) Print(value any) error {
	b, err := o.encode(value)
	if err != nil {
		return fmt.Errorf("print what was found: %w", err)
	}
	if o.printed {
		b = append([]byte(o.separator), b...)
	}
	o.printed = true
	_, err = o.w.Write(b)
	return err
}

func encodeJSON(value any) ([]byte, error) {
	b, err := json.MarshalIndent(value, "", "    ")
	return append(b, '\n'), err
}

// pathEncoder returns an encoder that prints what a JSONPath finds in a value. A field that is missing is no error: it
// may be empty.
func pathEncoder(path string) (func(any) ([]byte, error), error) {
	if path != "" && !strings.Contains(path, "{") {
		path = "{" + path + "}" // kubectl takes it without braces, too
	}
	finder := jsonpath.New("output").AllowMissingKeys(true)
	if err := finder.Parse(path); err != nil || path == "" {
		return nil, fmt.Errorf("%q is not a JSONPath: write it as in -o %s'{.status.podIP}'", path, jsonpathPrefix)
	}
	return func(value any) ([]byte, error) {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		var plain any // JSON names of fields instead of those of Go
		if err := utiljson.Unmarshal(text, &plain); err != nil {
			return nil, err
		}
		var out bytes.Buffer
		err = finder.Execute(&out, plain)
		return out.Bytes(), err
	}, nil
}
