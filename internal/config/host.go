package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// ThisMachine returns the facts of the machine that this process runs on.
func ThisMachine() (Machine, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return Machine{}, fmt.Errorf("find out the machine's name: %w", err)
	}
	workDir, err := os.Getwd()
	if err != nil {
		return Machine{}, fmt.Errorf("find out the current folder: %w", err)
	}
	return Machine{Hostname: hostname, Processors: runtime.NumCPU(), WorkDir: workDir}, nil
}

// LoadOnHost is Load with the facts of this machine.
func LoadOnHost(root string, flags Flags, file []byte) (*Config, error) {
	m, err := ThisMachine()
	if err != nil {
		return nil, err
	}
	return Load(root, flags, file, m)
}

// LibexecDir returns the directory of the programs of the bundled runtime, which lies beside berth.
func LibexecDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the programs of the bundled runtime: %w", err)
	}
	return filepath.Join(filepath.Dir(self), "libexec"), nil
}
