// Package manifests has the commands that read manifests and run nothing: validate and diff.
package manifests

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth/internal/cli/cmdutil"
	"berth/internal/core/review"
	"berth/internal/intake/source"
)

const stdinName = "-"

// manifestFlag is the -f of a command.
type manifestFlag struct{ paths []string }

func (m *manifestFlag) addTo(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&m.paths, "filename", "f", nil, "manifest, folder of manifests, or - for stdin (may be repeated)")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
}

// read returns the manifests of -f and of args. A file that can't be read is among them, with its error. No manifest at
// all is an error.
func (m *manifestFlag) read(cmd *cobra.Command, args []string) ([]review.File, error) {
	paths := append(slices.Clone(m.paths), args...)
	if len(paths) == 0 {
		return nil, cmdutil.UsageError(cmd, "say what to look at with -f: a manifest, a folder, or - for stdin")
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

// wholeFolder reports whether -f is one folder, so that pods that are not in it would be removed.
func (m *manifestFlag) wholeFolder(args []string) bool {
	paths := append(slices.Clone(m.paths), args...)
	if len(paths) != 1 {
		return false
	}
	return isDir(paths[0])
}

func manifestsAt(path string, stdin io.Reader) ([]review.File, error) {
	if path == stdinName {
		data, err := readLimited(stdin)
		return []review.File{{Origin: "stdin", Data: data, Err: err}}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("look for manifests: %w", err)
	}
	if !info.IsDir() {
		return []review.File{readManifest(path)}, nil
	}
	paths, err := source.Manifests(path)
	if err != nil {
		return nil, err
	}
	var files []review.File
	for _, p := range paths {
		files = append(files, readManifest(p))
	}
	return files, nil
}

// ReadOnePod returns the manifest at path, which is a file or - for stdin, and its only pod. It prints on stderr why
// the agent would refuse the manifest.
func ReadOnePod(cmd *cobra.Command, path string) ([]byte, *v1.Pod, error) {
	files, err := manifestsAt(path, cmd.InOrStdin())
	if err != nil {
		return nil, nil, err
	}
	if len(files) != 1 || isDir(path) {
		return nil, nil, fmt.Errorf("%s is a folder: --once runs the pod of one manifest", path)
	}
	result, err := review.Read(files, defaultNodeName())
	if err != nil {
		return nil, nil, err
	}
	for _, f := range result.Findings {
		if f.Level == review.Error {
			cmd.PrintErrln(findingText(f, false))
		}
	}
	switch {
	case result.Failed():
		return nil, nil, fmt.Errorf("the manifest %s is wrong", files[0].Origin)
	case len(result.Pods) != 1:
		return nil, nil, fmt.Errorf("there are %d pods in %s: --once runs one", len(result.Pods), files[0].Origin)
	}
	return files[0].Data, result.Pods[0].Pod, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func readManifest(path string) review.File {
	file, err := os.Open(path)
	if err != nil {
		return review.File{Origin: path, Err: err}
	}
	defer file.Close()
	data, err := readLimited(file)
	if err == nil {
		err = source.CheckWriters(file)
	}
	return review.File{Origin: path, Data: data, Err: err}
}

func readLimited(from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, source.MaxManifest+1))
	if err == nil && len(data) > source.MaxManifest {
		err = fmt.Errorf("it has more than %d MB: split it", source.MaxManifest>>20)
	}
	return data, err
}

// defaultNodeName returns the name that the agent has without --hostname-override.
func defaultNodeName() string {
	name, err := os.Hostname()
	name = strings.ToLower(name)
	if err != nil || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "node"
	}
	return name
}
