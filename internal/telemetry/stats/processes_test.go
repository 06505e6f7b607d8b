package stats

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// writeProcess makes the part of /proc that is read of a process.
func writeProcess(t *testing.T, proc string, pid int, limit string, descriptors ...string) {
	t.Helper()
	dir := filepath.Join(proc, strconv.Itoa(pid))
	if err := os.MkdirAll(filepath.Join(dir, "fd"), 0o755); err != nil {
		t.Fatal(err)
	}
	limits := "Limit                     Soft Limit           Hard Limit           Units\nMax processes             7  8  processes\nMax open files            " + limit + "    1048576    files\n"
	if err := os.WriteFile(filepath.Join(dir, "limits"), []byte(limits), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, to := range descriptors {
		if err := os.Symlink(to, filepath.Join(dir, "fd", strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProcessesOfAContainer(t *testing.T) {
	proc := t.TempDir()
	writeProcess(t, proc, 1, "1024", "/dev/null", "socket:[1]", "socket:[2]")
	writeProcess(t, proc, 2, "unlimited", "pipe:[3]")
	r := newProcessReader(proc)

	got := r.read([]int{1, 2, 3}) // the third has ended

	if got == nil || got.Count != 3 || *got.Descriptors != 4 || *got.Sockets != 2 || *got.MaxOpenFiles != 1024 {
		t.Errorf("got %+v", got)
	}
	if got := r.read([]int{2}); got == nil || *got.MaxOpenFiles != -1 {
		t.Errorf("got %+v for a process without a limit", got)
	}
	if got := r.read(nil); got != nil {
		t.Errorf("got %+v for no process", got)
	}
}

func TestAContainerWithVeryManyFilesHoldsUpNoScrape(t *testing.T) {
	proc := t.TempDir()
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprint("socket:", i))
	}
	writeProcess(t, proc, 1, "1024", many...)
	writeProcess(t, proc, 2, "1024", "/dev/null")
	r := &processReader{proc: proc, left: 15}

	for _, pid := range []int{1, 2} {
		if got := r.read([]int{pid}); got == nil || got.Count != 1 || got.Descriptors != nil || got.Sockets != nil {
			t.Errorf("process %d: got %+v", pid, got)
		}
	}
	if got := r.read(make([]int, maxProcesses)); got != nil {
		t.Errorf("got %+v for a container with very many processes", got)
	}
}

func TestDisksAndSocketsOfTheMachine(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("diskstats", " 253       0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n broken\n")
	for cpu, place := range [][2]string{{"0", "0"}, {"0", "0"}, {"0", "1"}, {"1", "0"}} {
		topology := fmt.Sprintf("devices/system/cpu/cpu%d/topology/", cpu)
		write(topology+"physical_package_id", place[0]+"\n")
		write(topology+"core_id", place[1]+"\n")
	}
	m := machine{proc: dir, sys: dir}

	want := DiskStats{
		Device: "/dev/vda", Reads: 1, ReadsMerged: 2, SectorsRead: 3, ReadTime: 4,
		Writes: 5, WritesMerged: 6, SectorsWritten: 7, WriteTime: 8, InProgress: 9, Time: 10, WeightedTime: 11,
	}
	if got := m.diskStats(); len(got) != 1 || got[0] != want {
		t.Errorf("got %+v", got)
	}
	if got := m.topology(); got != (Topology{PhysicalCores: 3, Sockets: 2}) {
		t.Errorf("got %+v", got)
	}
	if got := (machine{proc: dir, sys: filepath.Join(dir, "none")}).topology(); got != (Topology{}) {
		t.Errorf("got %+v", got)
	}
}
