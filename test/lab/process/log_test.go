package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLogStaysSmallAndKeepsTheEnd(t *testing.T) {
	// Given a log, when far more is written than it may hold.
	path := filepath.Join(t.TempDir(), "program.log")
	log, err := openLog(path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 99) + "\n")
	for range 100 {
		if n, err := log.Write(line); n != len(line) || err != nil {
			t.Fatalf("wrote %d bytes, with error %v", n, err)
		}
	}
	if _, err := log.Write([]byte("the end\n")); err != nil {
		t.Fatal(err)
	}
	log.close()

	// Then both pieces are small, and the end is there.
	for _, file := range []string{path, path + ".old"} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 1200 {
			t.Errorf("%s has %d bytes", file, info.Size())
		}
	}
	if got := Tail(path, 8); !strings.HasSuffix(got, "the end\n") {
		t.Errorf("the log ends with %q", got)
	}
}

func TestProgramsThatLogAfterTheirLogIsClosedGoOn(t *testing.T) {
	log, err := openLog(filepath.Join(t.TempDir(), "program.log"), 1000)
	if err != nil {
		t.Fatal(err)
	}
	log.close()
	if n, err := log.Write([]byte("late")); n != 4 || err != nil {
		t.Errorf("wrote %d bytes, with error %v", n, err)
	}
}
