package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"berth/internal/intake/manifest/strict"
)

// dropIns merges the files of --config-dir whose names end in .conf, in the order of their paths.
func (l *loader) dropIns(into tree) error {
	dir := l.commandLine.String("config-dir")
	if dir == "" {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".conf" {
			return err
		}
		fields, err := l.read(path, false)
		if err != nil {
			return fmt.Errorf("drop-in %w", err)
		}
		merge(into, fields)
		return nil
	})
	if err != nil {
		return fmt.Errorf("--config-dir: %w", err)
	}
	return nil
}

// maxFile bounds the size of a configuration file.
const maxFile = 10 << 20

// read returns the fields of a file, and adds unknown fields to the warnings. A duplicate field is an error unless
// lenient.
func (l *loader) read(file string, lenient bool) (tree, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if info.Size() > maxFile || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a file of at most %d bytes", file, maxFile)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	documents, problems := strict.Documents(data)
	if len(problems) > 0 {
		return nil, l.mistakes(file, problems)
	}
	if len(documents) != 1 {
		return nil, fmt.Errorf("%s: it holds %d documents, and must hold one %s", file, len(documents), kind)
	}
	d := documents[0]
	if is, want := d.Text("apiVersion")+" "+d.Text("kind"), kubeletconfig.SchemeGroupVersion.String()+" "+kind; is != want {
		return nil, fmt.Errorf("%s:%d: apiVersion and kind are %q, want %s", file, d.Line(), is, want)
	}
	text, problems := d.JSON(&kubeletconfig.KubeletConfiguration{})
	var refused []strict.Error
	for _, p := range problems {
		if p.Unknown || p.Doubled && lenient {
			l.warnings = append(l.warnings, fmt.Sprintf("%s:%d: %v", file, p.Line, p))
		} else {
			refused = append(refused, p)
		}
	}
	if len(refused) > 0 {
		return nil, l.mistakes(file, refused)
	}
	fields, err := parseTree(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return fields, nil
}

// mistakes joins the errors of a file into one.
func (l *loader) mistakes(file string, all []strict.Error) error {
	var errs []error
	for _, m := range all {
		errs = append(errs, fmt.Errorf("%s:%d: %w", file, m.Line, m))
	}
	return errors.Join(errs...)
}
