package cgroup

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"berth/internal/lib/run"
)

func TestProcessesInNoCgroupAreMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given the first process, a thread of the kernel, one of another PID namespace, and a daemon in no cgroup
		m := v1Machine(t, "cpu", "devices")
		m.has(map[string]string{
			"cpu/cgroup.procs": "1\n2\n30\n40\n", "devices/cgroup.procs": "1\n2\n0\n30\n", "cpu/system/cgroup.procs": "", "devices/system/cgroup.procs": "",
			"proc/1/exe": "", "proc/2/comm": "kthreadd",
		})
		mkdir(t, filepath.Join(m.dir, "proc/30"))
		if err := os.Symlink("/usr/sbin/daemon", filepath.Join(m.dir, "proc/30/exe")); err != nil {
			t.Fatal(err)
		}
		group := run.NewGroup(t.Context(), slog.New(slog.DiscardHandler))
		defer group.Stop()

		// then only the daemon moves, in all hierarchies
		group.Go("system processes", SystemProcesses{Tree: m.tree, Path: "/system", Proc: filepath.Join(m.dir, "proc"), Log: slog.New(slog.DiscardHandler)}.Keep)
		synctest.Wait()
		m.expect(map[string]string{"cpu/system/cgroup.procs": "30", "devices/system/cgroup.procs": "30"})
	})
}
