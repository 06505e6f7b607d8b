package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// LoadOnHost is Load with the facts of this machine.
func LoadOnHost(root string, flags Flags, file []byte) (*Config, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find out the machine's name: %w", err)
	}
	workDir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find out the current folder: %w", err)
	}
	return Load(root, flags, file, Machine{Hostname: hostname, Processors: runtime.NumCPU(), WorkDir: workDir})
}

// LibexecDir returns the directory of the programs of the bundled runtime, which lies beside berth.
func LibexecDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the programs of the bundled runtime: %w", err)
	}
	return filepath.Join(filepath.Dir(self), "libexec"), nil
}
