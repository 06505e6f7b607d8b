package statefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/lib/atomicfile"
)

func TestADamagedStateFileIsSetAside(t *testing.T) {
	// given a damaged file
	path := filepath.Join(t.TempDir(), "state.json")
	var log bytes.Buffer
	load := func() (string, error) {
		var got string
		err := Load(slog.New(slog.NewTextHandler(&log, nil)), path, "the state is forgotten", func(content []byte) error {
			return json.Unmarshal(content, &got)
		})
		return got, err
	}
	for _, text := range []string{`"cut of`, `{`} {
		log.Reset()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}

		// when it is read, then the log names it and says what is lost
		if _, err := load(); !IsDamaged(err) {
			t.Error(err)
		}
		if line := log.String(); strings.Count(line, "\n") != 1 || !strings.Contains(line, "the state is forgotten") || !strings.Contains(line, path+".corrupt") {
			t.Error(line)
		}

		// and the next write leaves the damaged content aside, of which there is one
		if err := atomicfile.Replace(path, []byte(`"good"`), 0o600); err != nil {
			t.Fatal(err)
		}
		if kept, err := os.ReadFile(path + ".corrupt"); err != nil || string(kept) != text {
			t.Errorf("set aside: %q, %v", kept, err)
		}
		log.Reset()
		if got, err := load(); got != "good" || err != nil || log.Len() > 0 {
			t.Errorf("have %q, %v, %s", got, err, log.String())
		}
		if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 2 {
			t.Errorf("there are %v, %v", files, err)
		}
	}
}

func TestAStateFileThatCantBeReadStopsNothing(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"none":        func(string) error { return nil },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		path := filepath.Join(t.TempDir(), "state.json")
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		err := Load(slog.New(slog.NewTextHandler(&log, nil)), path, "the state is forgotten", func([]byte) error { return errors.New("it was decoded") })
		if want := name != "none"; (err != nil) != want || strings.Contains(log.String(), "the state is forgotten") != want || IsDamaged(err) {
			t.Errorf("%s: %v, %s", name, err, log.String())
		}
	}
}

func TestADamagedRecordStays(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadRecord[[]int](dir, "r"); !errors.Is(err, fs.ErrNotExist) || IsDamaged(err) {
		t.Error(err)
	}
	for text, want := range map[string]int{"[1, 2]": 2, "[1": 0, `[1, "x"]`: 0, "": 0} {
		if err := os.WriteFile(filepath.Join(dir, "r"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadRecord[[]int](dir, "r")
		if len(got) != want || IsDamaged(err) != (want == 0) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), filepath.Join(dir, "r")) {
			t.Errorf("it does not name the file: %v", err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("there are %v, %v", files, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "r"), make([]byte, maxRecord+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRecord[[]int](dir, "r"); err == nil || IsDamaged(err) {
		t.Error(err)
	}
}
