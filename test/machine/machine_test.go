//go:build real

// Package machine boots a Debian of its own in an emulator, and runs tests of test/real
// in there: those that show that berth works with cgroup v2, and those that need a
// machine that is theirs alone, because they set its clock, switch it off, or want of
// its kernel what the one at hand may lack (NFS, AppArmor, SELinux, huge pages).
//
// Nothing but the console leads out of it, and in one boot a network to a control plane. `make test-machine` does
// all of the set-up.
package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth/test/emulator"
	"berth/test/netns"
)

const (
	bin = "../../bin"
	// An emulator is slow: a boot takes a quarter of a minute, a pod some seconds.
	bootLimit = 30 * time.Minute
)

// The last test of the first boot switches the machine off, and what came of that is seen in the second. A kernel
// has AppArmor or SELinux, and each is on in one of them; in that with SELinux, there is a cluster for the machine to join. In
// the third boot, cgroups are of version 1.
func TestOnAMachineOfItsOwn(t *testing.T) {
	data, network := newDisk(t), newNetwork(t)
	for _, boot := range []struct {
		parameters string // of the kernel
		cluster    bool
		tests      int
	}{
		{"security=apparmor", false, 16},
		{"security=selinux net.ifnames=0", true, 3},
		{"security=apparmor systemd.unified_cgroup_hierarchy=0", false, 1},
	} {
		began := time.Now()
		devices := []string{"-nic", "none"}
		if boot.cluster {
			devices = joinable(t, network)
		}
		out, err := start(t, network, data, boot.parameters, devices)
		passed, failed := outcomes(out)
		t.Logf("the boot with %s took %s; passed: %v", boot.parameters, time.Since(began).Round(time.Second), passed)
		if err != nil || len(failed) > 0 || len(passed) != boot.tests {
			t.Fatalf("%d tests were to pass, and these failed: %v; %v\n%s", boot.tests, failed, err, out)
		}
	}
}

// newDisk is the disk that the tests are on: berth, its runtime, the tests and the
// programs that they run in containers.
func newDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	for _, part := range []string{"bin", "programs", "test/real"} {
		must(t, os.MkdirAll(filepath.Join(tree, part), 0o755))
	}
	run(t, "cp", "-r", filepath.Join(bin, "berth"), filepath.Join(bin, "libexec"), filepath.Join(tree, "bin"))
	run(t, "cp", "-r", "../../packaging", tree)
	for _, version := range []string{"1", "2"} {
		run(t, "../../packaging/deb/build.sh", bin, filepath.Join(tree, "packages"), version)
	}
	run(t, "cp", "run.sh", filepath.Join(tree, "run"))
	folders, err := filepath.Glob("../real/*/main_test.go")
	must(t, err)
	for _, file := range folders {
		name := filepath.Base(filepath.Dir(file))
		run(t, "go", "test", "-c", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-tags", "real machine", "-o", filepath.Join(tree, "test", "real", name)+"/", "../real/"+name)
	}
	run(t, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", filepath.Join(tree, "programs")+"/", "../workload", "../csidriver")
	disk := filepath.Join(dir, "disk")
	run(t, "mkfs.ext4", "-q", "-d", tree, disk, "2G")
	must(t, os.RemoveAll(tree))
	return disk
}

// start runs the machine, and returns the output of the tests once it is off. Its first disk keeps
// nothing. kernelArgs are added to the command line of the kernel, and devices to that of the emulator.
func start(t *testing.T, network *netns.Namespace, data, kernelArgs string, devices []string) (string, error) {
	t.Helper()
	printed, console := filepath.Join(t.TempDir(), "tests"), filepath.Join(t.TempDir(), "console")
	ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
	defer cancel()
	args := append(emulator.Args(filepath.Join(bin, "machine"), data, "hugepages=32 "+kernelArgs),
		append(devices, "-serial", "file:"+console, "-serial", "file:"+printed)...)
	var complaints []byte
	err := network.Inside(func() (err error) {
		complaints, err = exec.CommandContext(ctx, emulator.Program, args...).CombinedOutput()
		return err
	})
	if err != nil {
		last, _ := os.ReadFile(console) // it is only to tell more
		err = fmt.Errorf("%w: %s\nits console:\n%s", err, complaints, last)
	}
	text, readErr := os.ReadFile(printed)
	return strings.ReplaceAll(string(text), "\r", ""), errors.Join(err, readErr)
}

var outcome = regexp.MustCompile(`(?m)^--- (PASS|FAIL): (\w+)`)

// outcomes are the tests that passed, and those that did not.
func outcomes(printed string) (passed, failed []string) {
	for _, found := range outcome.FindAllStringSubmatch(printed, -1) {
		if found[1] == "PASS" {
			passed = append(passed, found[2])
		} else {
			failed = append(failed, found[2])
		}
	}
	return passed, failed
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
