package kernel

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machine returns a folder of sysctls that are all as a kubelet expects, but for those given.
func machine(t *testing.T, others map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, s := range sysctls {
		value := s.value
		if other, given := others[s.name]; given {
			value = other
		}
		path := filepath.Join(dir, s.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestProtectedSysctlsAreOnlyCompared(t *testing.T) {
	if err := CheckSysctls(machine(t, nil)); err != nil {
		t.Error(err)
	}
	dir := machine(t, map[string]string{"vm/overcommit_memory": "0", "kernel/panic": "0"})
	err := CheckSysctls(dir)
	if err == nil || !strings.Contains(err.Error(), "vm/overcommit_memory, expected value: 1, actual value: 0") || !strings.Contains(err.Error(), "kernel/panic,") {
		t.Errorf("got %v", err)
	}
	if value, err := readSysctl(dir, "kernel/panic"); value != "0" || err != nil {
		t.Errorf("it was changed to %q (%v)", value, err)
	}
}

func TestSysctlsAreSetToWhatAKubeletExpects(t *testing.T) {
	dir := machine(t, map[string]string{"vm/overcommit_memory": "0", "kernel/panic": "0"})
	if err := os.Remove(filepath.Join(dir, "kernel/keys/root_maxkeys")); err != nil { // a kernel without keys
		t.Fatal(err)
	}
	var log bytes.Buffer
	SetSysctls(dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err := CheckSysctls(dir); err != nil {
		t.Error(err)
	}
	if strings.Count(log.String(), "\n") != 2 {
		t.Errorf("the log says %s", log.String())
	}
	log.Reset()
	SetSysctls(dir, slog.New(slog.NewTextHandler(&log, nil)))
	if log.Len() > 0 {
		t.Errorf("the second time, the log says %s", log.String())
	}
}
