package mounts

import (
	"slices"
	"strings"
	"testing"
)

const table = `27 1 254:0 / / rw - ext4 /dev/vda rw
40 27 0:1 / /var/lib/berth/run rw - tmpfs tmpfs rw
41 27 0:2 / /var/lib/berth/run/a rw shared:2 - tmpfs tmpfs rw
42 27 0:3 / /var/lib/berth/run/a/b\040c rw - tmpfs tmpfs rw
43 27 0:4 / /var/lib/berth/running rw - tmpfs tmpfs rw
44 27 0:5 / /var/lib/berth/run/a rw - nfs server:/export rw
`

func parse(t *testing.T, text string) Table {
	t.Helper()
	parsed, err := Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestMountsAreFoundDeepestFirst(t *testing.T) {
	for dir, want := range map[string][]string{
		"/var/lib/berth/run":   {"/var/lib/berth/run/a/b c", "/var/lib/berth/run/a", "/var/lib/berth/run/a"},
		"/var/lib/berth/run/a": {"/var/lib/berth/run/a/b c"},
		"/var/lib/berth/no":    nil,
	} {
		var got []string
		for _, m := range parse(t, table).Below(dir) {
			got = append(got, m.Mountpoint)
		}
		if !slices.Equal(got, want) {
			t.Errorf("below %s: got %q, want %q", dir, got, want)
		}
	}
	if got := len(parse(t, table).Below("/")); got != 5 {
		t.Errorf("below /: got %d, want all but that on / itself", got)
	}
}

func TestAPathIsOnTheTopmostMountAboveIt(t *testing.T) {
	for path, want := range map[string]int{
		"/": 27, "/etc": 27, "/var/lib/berth/run": 40, "/var/lib/berth/runner": 27, "/var/lib/berth/run/a/x": 44, "/var/lib/berth/running/x": 43,
	} {
		if got := parse(t, table).Under(path); got == nil || got.ID != want {
			t.Errorf("%s: got %+v, want mount %d", path, got, want)
		}
	}
	if got := Table(nil).Under("/"); got != nil {
		t.Errorf("an empty table: got %+v", got)
	}
}

func TestEscapesInMountPoints(t *testing.T) {
	for in, want := range map[string]string{`/a\040b`: "/a b", `/a\134`: `/a\`, `/\011\012`: "/\t\n"} {
		got := parse(t, "27 1 254:0 / "+in+" rw - ext4 /dev/vda rw\n")
		if len(got) != 1 || got[0].Mountpoint != want {
			t.Errorf("%q: got %+v, want %q", in, got, want)
		}
	}
}

// A mount that is not seen would be taken for a directory, and its content removed.
func TestATableThatCantBeParsedIsAnError(t *testing.T) {
	for _, text := range []string{"short line\n", table + "1 2 0:1 / /x rw no separator in this line\n", table + `1 2 0:1 / /x\ rw - a b c` + "\n"} {
		if _, err := Parse(strings.NewReader(text)); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestTheTableOfThisProcess(t *testing.T) {
	table, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	if under := table.Under("/proc"); under == nil || under.FSType != "proc" {
		t.Errorf("/proc is on %+v", under)
	}
}
