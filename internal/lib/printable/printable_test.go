package printable

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestOneLine(t *testing.T) {
	for given, want := range map[string]string{
		"plain, with ünïcode":          "plain, with ünïcode",
		"\n two\nlines\tand  more\r\n": "two lines and more",
		"\x1b[31mred\x00":              "?[31mred?",
		"\u202eevil":                   "?evil",
		"bad \xff byte":                "bad \ufffd byte",
		" \n":                          "",
	} {
		if got := OneLine(given); got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}

func TestHeadAndTail(t *testing.T) {
	for _, c := range []struct{ given, head, tail string }{
		{"12345678", "12345678", "12345678"},
		{"123456789", "12345...", "...56789"},
		{"üüüüü", "üü...", "...üü"},
		{"\x80\x80\x80\x80\x80\x80\x80\x80\x80", "...", "..."}, // no letters at all
	} {
		if head, tail := Head(c.given, 8), Tail(c.given, 8); head != c.head || tail != c.tail {
			t.Errorf("%q: got %q and %q, want %q and %q", c.given, head, tail, c.head, c.tail)
		}
	}
}

func FuzzPlain(f *testing.F) {
	for _, s := range []string{"", "all is well", "two\nlines\r\n", "\x1b[31mred", "\xff\xfe", "a\u202eb", strings.Repeat("ä", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		const size = 40
		for _, got := range []string{Head(OneLine(s), size), Tail(OneLine(s), size)} {
			if len(got) > size || !utf8.ValidString(got) {
				t.Errorf("%q is %d bytes, valid %t", got, len(got), utf8.ValidString(got))
			}
			if at := strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }); at >= 0 {
				t.Errorf("%q is in %q", got[at:], got)
			}
		}
	})
}
