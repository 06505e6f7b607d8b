package crilog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLastLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	var log strings.Builder
	for i := range 100 {
		fmt.Fprintf(&log, "2026-01-02T03:04:05.000000000Z stdout F line %d\n", i)
	}
	if err := os.WriteFile(path, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := LastLines(path, 2, 1000); got != "line 98\nline 99\n" {
		t.Errorf("two lines: %q", got)
	}
	if got := LastLines(path, 80, 10); got != "8\nline 99\n" {
		t.Errorf("ten bytes: %q", got)
	}
	if got := LastLines(path+".not", 2, 10); got != "" {
		t.Errorf("no log: %q", got)
	}
}
