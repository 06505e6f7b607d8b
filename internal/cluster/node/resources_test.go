package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAMachineWithoutAnIDIsGoodForPods(t *testing.T) {
	root := t.TempDir()
	host := Host{Root: root, Storage: root}
	if _, err := host.ReadResources(); err == nil || !strings.Contains(err.Error(), "how much memory") {
		t.Errorf("of a machine that tells nothing, it says %v", err)
	}
	if err := os.MkdirAll(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "proc/meminfo"), []byte("MemTotal: 1024 kB\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if m, err := host.ReadResources(); err != nil || m.Memory != 1<<20 {
		t.Errorf("it has %d bytes: %v", m.Memory, err)
	}
}
