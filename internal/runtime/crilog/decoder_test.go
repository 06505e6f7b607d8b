package crilog

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"time"
)

const stamp = "2026-01-02T03:04:05.000000000Z"

func decodeAll(o Options, parts ...string) string {
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	d := newDecoder(w, o)
	for _, p := range parts {
		d.decode([]byte(p))
	}
	d.endFile()
	_ = w.Flush()
	return out.String()
}

func TestDecode(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	later := "2026-01-02T03:04:06Z"
	cases := []struct {
		name string
		o    Options
		in   string
		want string
	}{
		{"whole lines", Options{}, stamp + " stdout F one\n" + stamp + " stderr F two\n", "one\ntwo\n"},
		{"an empty line", Options{}, stamp + " stdout F \n", "\n"},
		{"an empty line without its space", Options{}, stamp + " stdout F\n", "\n"},
		{"text with spaces", Options{}, stamp + " stdout F  a  b \n", " a  b \n"},
		{"further tags", Options{}, stamp + " stdout F:x:y one\n", "one\n"},
		{"a zone other than UTC", Options{}, "2026-01-02T03:04:05.5+05:30 stdout F one\n", "one\n"},
		{"parts are joined", Options{}, stamp + " stdout P a\n" + stamp + " stdout P b\n" + stamp + " stdout F c\n", "abc\n"},
		{"parts of another stream are not", Options{}, stamp + " stdout P a\n" + stamp + " stderr F b\n" + stamp + " stdout F c\n", "a\nb\nc\n"},
		{"a part without its end", Options{}, stamp + " stdout P a\n", "a"},
		{"a line without its newline", Options{}, stamp + " stdout F a", "a\n"},
		{"time once per line", Options{Timestamps: true}, stamp + " stdout P a\n" + stamp + " stdout F b\n", stamp + " ab\n"},
		{"garbled lines pass", Options{Timestamps: true}, "oops\n\n" + stamp + " stdout X y\n" + stamp + " tty F z\n", "oops\n\n" + stamp + " stdout X y\n" + stamp + " tty F z\n"},
		{"a garbled line ends a part", Options{}, stamp + " stdout P a\noops\n" + stamp + " stdout F b\n", "a\noops\nb\n"},
		{"a long garbled line", Options{}, strings.Repeat("x", 1000) + "\n", strings.Repeat("x", 1000) + "\n"},
		{"half of a head", Options{}, stamp + " std", stamp + " std\n"},
		{"older lines are left out", Options{Since: since}, stamp + " stdout F old\n" + later + " stdout F new\n", "new\n"},
		{"with all of their parts", Options{Since: since}, stamp + " stdout P old\n" + later + " stdout F old\n" + later + " stdout F new\n", "new\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := decodeAll(c.o, c.in); got != c.want {
				t.Errorf("in one piece: got %q, want %q", got, c.want)
			}
			if got := decodeAll(c.o, strings.Split(c.in, "")...); got != c.want {
				t.Errorf("byte by byte: got %q, want %q", got, c.want)
			}
		})
	}
}

func TestDecodeHoldsNoMoreThanAHead(t *testing.T) {
	// Given a line of 8 MiB, which no good runtime writes
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	d := newDecoder(w, Options{})
	d.decode([]byte(stamp + " stdout F "))
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for range 8 {
		d.decode(chunk)
	}
	// Then all but a buffer of it is out before its end is seen
	if got, want := out.Len(), 8<<20-w.Size(); got < want {
		t.Errorf("%d bytes are out, want at least %d", got, want)
	}
	if cap(d.pending) > maxHead {
		t.Errorf("the decoder holds %d bytes, want at most %d", cap(d.pending), maxHead)
	}
}

// FuzzDecode checks that nothing panics, that it does not matter where the
// bytes are cut, and that the tail of a log is the end of what all of it gives.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(stamp+" stdout F one\n"+stamp+" stderr P tw\n"+stamp+" stderr F o\n"), 3, int64(1))
	f.Add([]byte("oops\n\n\n"+stamp+" stdout P x"), 1, int64(2))
	f.Add([]byte(stamp+" stdout F:"+strings.Repeat("t", 200)+" x\n"), 127, int64(1))
	f.Add([]byte("\n"+stamp+" stdout F a\n"), 0, int64(1))
	f.Add([]byte("\n0000-01-01T00:00:00Z stdout F "), 1, int64(1))
	f.Fuzz(func(t *testing.T, log []byte, cut int, n int64) {
		all := decodeAll(Options{}, string(log))
		if cut >= 0 && cut <= len(log) {
			if got := decodeAll(Options{}, string(log[:cut]), string(log[cut:])); got != all {
				t.Errorf("cut at %d: got %q, want %q", cut, got, all)
			}
		}
		// Without a whole line at its end, a log may end with a line that shows nothing.
		for _, log := range []string{string(log), string(log) + "\nend\n"} {
			all := decodeAll(Options{}, log)
			at, err := tailOffset(t.Context(), strings.NewReader(log), int64(len(log)), n)
			if err != nil {
				t.Fatalf("tailOffset: %v", err)
			}
			end := decodeAll(Options{}, log[at:])
			if !strings.HasSuffix(all, end) {
				t.Errorf("the last %d lines are %q, which is not the end of %q", n, end, all)
			}
			want := min(max(n, 0), int64(strings.Count(all, "\n")))
			if got := int64(strings.Count(end, "\n")); strings.HasSuffix(log, "\nend\n") && got != want {
				t.Errorf("asked for %d lines, got %d, want %d: %q of %q", n, got, want, end, all)
			}
		}
	})
}
