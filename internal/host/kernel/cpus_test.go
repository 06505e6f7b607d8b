package kernel

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReservedProcessorsHaveToExist(t *testing.T) {
	online := filepath.Join(t.TempDir(), "online")
	if err := os.WriteFile(online, []byte("0-3,6\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for reserved, ok := range map[string]bool{"": true, "0": true, "1-3,6": true, "4": false, "0-4": false, "x": false} {
		if err := checkReservedCPUs(reserved, online); (err == nil) != ok {
			t.Errorf("%q: %v", reserved, err)
		}
	}
	if err := checkReservedCPUs("0", online+"2"); err == nil {
		t.Error("processors that can't be read are taken for granted")
	}
}
