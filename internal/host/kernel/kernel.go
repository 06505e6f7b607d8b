// Package kernel holds small settings and facts of the kernel: the OOM score of the agent, AppArmor,
// thermal throttling, sysctls.
package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// SetOOMScore sets how soon the kernel ends this process when memory runs out. A process that may
// not lower its score keeps the one that it has.
func SetOOMScore(score int, log *slog.Logger) {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(score)), 0); err != nil {
		log.Info("when memory runs out, the kernel may end the agent as soon as others: it needs the right to lower its score (CAP_SYS_RESOURCE)", "score", score, "err", err)
	}
}

// SetMaxOpenFiles sets how many files this process may have open; 0 changes nothing. A process that may not raise its limit
// keeps the one that it has.
func SetMaxOpenFiles(files uint64, log *slog.Logger) {
	if files == 0 {
		return
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: files, Max: files}); err != nil {
		log.Info("the limit of open files stays as it is", "files", files, "err", err)
	}
}

// ThrottlePaths lists the files with the thermal state of each processor, which reveal how busy other
// pods are. machine is the root of the file system.
func ThrottlePaths(machine fs.FS) []string {
	found, _ := fs.Glob(machine, "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle") // the pattern is valid
	for i := range found {
		found[i] = "/" + found[i]
	}
	return found
}

// HasAppArmor reports whether the kernel confines processes by AppArmor.
func HasAppArmor() bool {
	text, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	return err == nil && len(text) > 0 && text[0] == 'Y'
}

// SwapInUse reports whether the machine has swap turned on.
func SwapInUse() (bool, error) {
	table, err := os.ReadFile("/proc/swaps")
	if errors.Is(err, os.ErrNotExist) { // a kernel without swap
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for swap: %w", err)
	}
	return hasSwap(string(table)), nil
}

// hasSwap reads /proc/swaps: a line of titles, and a line for each device or file.
func hasSwap(table string) bool { return strings.Count(strings.TrimSpace(table), "\n") > 0 }

// TmpfsCanSwap reports whether the kernel may swap out files in memory, such as Secrets. Kernels before 6.4 don't know the
// mount option noswap.
func TmpfsCanSwap() bool {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	return err == nil && LacksNoswap(string(release))
}

// LacksNoswap reports whether a kernel of this release lacks the mount option noswap of tmpfs.
func LacksNoswap(release string) bool {
	var major, minor int
	known, _ := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return known == 2 && (major < 6 || major == 6 && minor < 4)
}

// CgroupV1 reports whether the machine has the old cgroups.
func CgroupV1() (bool, error) {
	var at unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &at); err != nil {
		return false, fmt.Errorf("look for the version of cgroups: %w", err)
	}
	return at.Type != unix.CGROUP2_SUPER_MAGIC, nil
}
