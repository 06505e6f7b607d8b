package node

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files makes a directory with the files of a machine, to be used as Host.Root.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range content {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestReadGathersWhatTheMachineTells(t *testing.T) {
	root := files(t, map[string]string{
		"var/lib/dbus/machine-id":                               "abc\n", // the other place
		"sys/class/dmi/id/product_uuid":                         "UUID\n",
		"proc/sys/kernel/random/boot_id":                        "boot\n",
		"proc/sys/kernel/osrelease":                             "6.18.0\n",
		"etc/os-release":                                        "NAME=x\nPRETTY_NAME=\"Some Linux 12\"\n",
		"proc/meminfo":                                          "MemTotal:  16 kB\nMemFree: 1 kB\nSwapTotal: 8 kB\nHugePages_Total: 0\nodd\n",
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "3\n",
		"sys/kernel/mm/hugepages/other/nr_hugepages":            "x",
	})
	m, err := Host{Root: root, Storage: root}.Read()
	if err != nil {
		t.Fatal(err)
	}
	if m.CPUs < 1 || m.Storage <= 0 {
		t.Errorf("%d CPUs, %d bytes of storage", m.CPUs, m.Storage)
	}
	if !maps.Equal(m.HugePages, map[int64]int64{2 << 20: 6 << 20}) {
		t.Errorf("huge pages %v", m.HugePages)
	}
	m.CPUs, m.Storage, m.HugePages = 0, 0, nil
	want := Machine{Memory: 16 << 10, Swap: 8 << 10, MachineID: "abc", SystemUUID: "UUID", BootID: "boot", Kernel: "6.18.0", OSImage: "Some Linux 12"}
	if !same(m, want) {
		t.Errorf("got %+v", m)
	}
}

func TestAMachineWithoutFactsIsStillANode(t *testing.T) {
	root := t.TempDir()
	m, err := Host{Root: root, Storage: filepath.Join(root, "none")}.Read()
	if m.CPUs < 1 {
		t.Errorf("got %+v", m)
	}
	for _, missing := range []string{"machine-id", "boot_id", "osrelease", "os-release", "meminfo", "none"} {
		if err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("the error does not name %s: %v", missing, err)
		}
	}
}

func TestTheMemoryOfThisMachine(t *testing.T) {
	m, _ := Host{Storage: "/"}.Read() // what is missing differs between machines
	if m.Memory <= 0 || m.Storage <= 0 || m.Kernel == "" || m.BootID == "" {
		t.Errorf("got %+v", m)
	}
}

func TestAHugePageFileThatIsOddIsNamed(t *testing.T) {
	root := files(t, map[string]string{"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "many"})
	if _, err := (Host{Root: root}).hugePages(); err == nil || !strings.Contains(err.Error(), "hugepages-2048kB") {
		t.Errorf("got %v", err)
	}
}
