package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// Sysctls is the folder of the settings of the running kernel.
const Sysctls = "/proc/sys"

// sysctls are the settings that a kubelet expects, the same as upstream's.
var sysctls = []struct{ name, value string }{
	{"vm/overcommit_memory", "1"},             // memory is never refused to programs beforehand
	{"vm/panic_on_oom", "0"},                  // the OOM killer ends a process, and not the machine
	{"kernel/panic", "10"},                    // seconds until a restart
	{"kernel/panic_on_oops", "1"},             // an error of the kernel ends the machine
	{"kernel/keys/root_maxkeys", "1000000"},   // each container has a session key
	{"kernel/keys/root_maxbytes", "25000000"}, // 25 bytes for each of them
}

// CheckSysctls returns an error that names the settings below dir that differ from what a kubelet expects. It changes nothing.
func CheckSysctls(dir string) error {
	var errs []error
	for _, s := range sysctls {
		value, err := readSysctl(dir, s.name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // a kernel without it
		case err != nil:
			errs = append(errs, err)
		case value != s.value:
			errs = append(errs, fmt.Errorf("invalid kernel flag: %s, expected value: %s, actual value: %s", s.name, s.value, value))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("protectKernelDefaults: %w", errors.Join(errs...))
	}
	return nil
}

// SetSysctls sets the settings below dir to what a kubelet expects. A setting that can't be changed stays as it is.
func SetSysctls(dir string, log *slog.Logger) {
	for _, s := range sysctls {
		value, err := readSysctl(dir, s.name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && value == s.value {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, s.name), []byte(s.value), 0o644)
		}
		if err != nil {
			log.Warn("a setting of the kernel is not what a kubelet expects, and can't be changed", "sysctl", s.name, "want", s.value, "err", err)
			continue
		}
		log.Info("changed a setting of the kernel", "sysctl", s.name, "value", s.value, "was", value)
	}
}

func readSysctl(dir, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	return strings.TrimSpace(string(text)), err
}
