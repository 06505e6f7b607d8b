package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth/internal/review"
)

// Manifests that are given with -f, to be looked at and not to be run.

const (
	stdinName   = "-"
	maxManifest = 10 << 20 // as much as the agent reads
)

// manifestFlag is the -f of a command.
type manifestFlag struct{ paths []string }

func (m *manifestFlag) addTo(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&m.paths, "filename", "f", nil, "manifest, folder of manifests, or - for stdin (may be repeated)")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
}

// read returns the files that are meant, also those that could not be read. It
// fails if there is nothing to look at.
func (m *manifestFlag) read(cmd *cobra.Command, args []string) ([]review.File, error) {
	paths := append(slices.Clone(m.paths), args...)
	if len(paths) == 0 {
		return nil, usageError(cmd, "say what to look at with -f: a manifest, a folder, or - for stdin")
	}
	var files []review.File
	for _, path := range paths {
		found, err := manifestsAt(path, cmd.InOrStdin())
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there are no manifests in %s: their names end in .yaml, .yml or .json", strings.Join(paths, ", "))
	}
	return files, nil
}

// wholeFolder tells whether -f is one folder: then it is all that there is to be.
func (m *manifestFlag) wholeFolder(args []string) bool {
	paths := append(slices.Clone(m.paths), args...)
	if len(paths) != 1 {
		return false
	}
	info, err := os.Stat(paths[0])
	return err == nil && info.IsDir()
}

func manifestsAt(path string, stdin io.Reader) ([]review.File, error) {
	if path == stdinName {
		data, err := readAtMost(stdin)
		return []review.File{{Origin: "stdin", Data: data, Err: err}}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("look for manifests: %w", err)
	}
	if !info.IsDir() {
		return []review.File{readManifest(path)}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("look for manifests: %w", err)
	}
	var files []review.File
	for _, e := range entries {
		if full := filepath.Join(path, e.Name()); isManifest(e.Name()) && !isFolder(full) {
			files = append(files, readManifest(full))
		}
	}
	return files, nil
}

// isManifest tells which files of a folder the agent reads.
func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) && !strings.ContainsAny(name[:1], ".#~")
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func readManifest(path string) review.File {
	file, err := os.Open(path)
	if err != nil {
		return review.File{Origin: path, Err: err}
	}
	defer file.Close()
	data, err := readAtMost(file)
	return review.File{Origin: path, Data: data, Err: err}
}

func readAtMost(from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxManifest+1))
	if err == nil && len(data) > maxManifest {
		err = errors.New("it has more than 10 MB: split it")
	}
	return data, err
}

// thisNode is what the agent of this machine is called unless it is told otherwise.
func thisNode() string {
	name, err := os.Hostname()
	name = strings.ToLower(name)
	if err != nil || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "node"
	}
	return name
}
