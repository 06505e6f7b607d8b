// Package kit has what the tests on real machines and in real clusters both need:
// programs for containers, registries, devices, and a stopwatch for volumes.
package kit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// built names the folder of the programs that run in containers, on a machine that
// has no Go to build them with.
const built = "BERTH_TEST_PROGRAMS"

// Build returns the program of a package of this module, fit to be the only file of an
// image. The path is relative to the package of the test.
func Build(source string) ([]byte, error) {
	if dir := os.Getenv(built); dir != "" {
		return os.ReadFile(filepath.Join(dir, filepath.Base(source)))
	}
	dir, err := os.MkdirTemp("", "berth-build")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "program")
	command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", out, source)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w: %s", source, err, text)
	}
	return os.ReadFile(out)
}

// WriteProgram writes a program that is to be started right away. One that somebody has
// open for writing can't be: and a process that is being started elsewhere in the tests
// has, for a moment, all that we have open. So nobody starts one meanwhile.
func WriteProgram(path string, program []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, program, 0o755)
}
