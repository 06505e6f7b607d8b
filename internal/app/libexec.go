package app

import (
	"fmt"
	"os"
	"path/filepath"
)

// LibexecDir is where the programs of the bundled runtime are: beside berth.
func LibexecDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the programs of the bundled runtime: %w", err)
	}
	return filepath.Join(filepath.Dir(self), "libexec"), nil
}
