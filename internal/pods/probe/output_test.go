package probe

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestTheSameErrorReadsTheSame(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for text, want := range map[string]string{
		`failed to start exec "` + id + `": exec: "/nope": no such file`: `failed to start exec: exec: "/nope": no such file`,
		"container " + id + " is not running":                            "container is not running",
		"sum " + id + "0":                                                "sum " + id + "0",
		"all is well":                                                    "all is well",
	} {
		if got := withoutIDs(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func FuzzShown(f *testing.F) {
	for _, s := range []string{"", "all is well", "two\nlines\r\n", "\x1b[31mred", "\xff\xfe", "a\u202eb", strings.Repeat("ä", maxOutput), strings.Repeat("\x00", 2*maxRead)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := sanitize(s)
		if len(got) > maxOutput || !utf8.ValidString(got) {
			t.Errorf("%d bytes, valid %t", len(got), utf8.ValidString(got))
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Errorf("%q is in %q", r, got)
			}
		}
		if len(s) <= maxOutput && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 && utf8.ValidString(s) &&
			got != strings.Join(strings.Fields(s), " ") {
			t.Errorf("%q became %q", s, got)
		}
	})
}
