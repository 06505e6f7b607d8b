package app

import (
	"fmt"
	"os"
	"path/filepath"

	"berth/internal/runtime/bundle"
)

// LibexecDir is where the programs of the bundled runtime are: beside berth.
func LibexecDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the programs of the bundled runtime: %w", err)
	}
	return filepath.Join(filepath.Dir(self), "libexec"), nil
}

// CanLabel tells whether the runtime that berth brings along can label containers for SELinux on this
// machine, and why not.
func CanLabel() error { return bundle.CanLabel() }
