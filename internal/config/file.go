package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"berth/internal/manifest/strict"
)

const (
	fileVersion = "kubelet.config.k8s.io/v1beta1"
	fileKind    = "KubeletConfiguration"
)

// honoured is the list of the fields that berth acts on. A field of a struct
// counts as one if any path below it is listed.
func honoured(path string) bool {
	switch path {
	case "staticPodPath",
		"staticPodURL",
		"staticPodURLHeader",
		"fileCheckFrequency",
		"httpCheckFrequency",
		"containerRuntimeEndpoint",
		"imageServiceEndpoint",
		"podCIDR",
		"cgroupRoot",
		"podLogsDir",
		"runtimeRequestTimeout",
		"maxParallelImagePulls",
		"serializeImagePulls",
		"crashLoopBackOff.maxContainerRestartPeriod",
		"logging.verbosity":
		return true
	default:
		return false
	}
}

// partly lists the fields of which berth acts on something within.
func partly(path string) bool { return path == "crashLoopBackOff" || path == "logging" }

// file is a configuration file that was read.
type file struct {
	kubeletv1beta1.KubeletConfiguration
	doc strict.Document
}

// readFile decodes a configuration file. Nothing at all is as good as no file.
func readFile(data []byte) (file, []error) {
	var f file
	if data == nil {
		return f, nil
	}
	docs, found := strict.Documents(data)
	var errs []error
	for _, e := range found {
		errs = append(errs, fmt.Errorf("config file, line %d: %w", e.Line, e))
	}
	if len(errs) > 0 {
		return f, errs
	}
	if len(docs) != 1 || !docs[0].IsObject() {
		return f, []error{fmt.Errorf("config file: it must hold one %s, and holds %d documents", fileKind, len(docs))}
	}
	f.doc = docs[0]
	if version, kind := f.doc.Text("apiVersion"), f.doc.Text("kind"); version != fileVersion || kind != fileKind {
		return f, []error{fmt.Errorf("config file: it must be of apiVersion %s and kind %s, and is of %q and %q", fileVersion, fileKind, version, kind)}
	}
	for _, e := range f.doc.Decode(&f.KubeletConfiguration) {
		errs = append(errs, fmt.Errorf("config file, line %d: %w", e.Line, e))
	}
	return f, errs
}

// named says which field of the file a value came from.
func (f file) named(field string) string {
	return fmt.Sprintf("config file, line %d: %s", f.doc.LineOf(field), field)
}

// unheeded names the fields that are set and that berth does not act on.
func (f file) unheeded() []string {
	return unheeded(reflect.ValueOf(f.KubeletConfiguration), "")
}

func unheeded(v reflect.Value, prefix string) []string {
	var names []string
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		path := prefix + name
		switch value := v.Field(i); {
		case name == "" || value.IsZero() || honoured(path):
		case partly(path):
			names = append(names, unheeded(value, path+".")...)
		default:
			names = append(names, path)
		}
	}
	return names
}

// problem is an error about one flag or field.
func problem(name, format string, args ...any) error {
	return errors.New(name + ": " + fmt.Sprintf(format, args...))
}
