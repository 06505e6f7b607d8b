package crilog

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

func logOf(n int, text string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s stdout F %d%s\n", stamp, i, text)
	}
	return b.String()
}

func TestTailOffset(t *testing.T) {
	three := stamp + " stdout F a\n" + stamp + " stdout F b\n" + stamp + " stdout F c\n"
	parts := stamp + " stdout F a\n" + stamp + " stdout P b1\n" + stamp + " stdout P b2\n" + stamp + " stdout F b3\n"
	long := strings.Repeat("x", tailBlock)
	cases := []struct {
		name string
		log  string
		n    int64
		want string
	}{
		{"none", three, 0, ""},
		{"of an empty log", "", 5, ""},
		{"the last", three, 1, "c\n"},
		{"the last two", three, 2, "b\nc\n"},
		{"as many as there are", three, 3, "a\nb\nc\n"},
		{"more than there are", three, 9, "a\nb\nc\n"},
		{"parts are one line", parts, 1, "b1b2b3\n"},
		{"a line before parts", parts, 2, "a\nb1b2b3\n"},
		{"an unfinished part is a line", three + stamp + " stdout P d\n", 2, "c\nd"},
		{"an unfinished line is a line", three + stamp + " stdout F d", 2, "c\nd\n"},
		{"garbled lines are lines", three + "oops\n", 2, "c\noops\n"},
		{"an empty first line", "\n" + stamp + " stdout F a\n", 1, "a\n"},
		{"lines longer than a block", logOf(5, long), 2, "3" + long + "\n4" + long + "\n"},
		{"many blocks", logOf(5000, ""), 3, "4997\n4998\n4999\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			at, err := tailOffset(t.Context(), strings.NewReader(c.log), int64(len(c.log)), c.n)
			if err != nil {
				t.Fatal(err)
			}
			if got := decodeAll(Options{}, c.log[at:]); got != c.want {
				t.Errorf("got %.80q (%d bytes), want %.80q (%d bytes)", got, len(got), c.want, len(c.want))
			}
		})
	}
}

func TestTailOffsetAtEachPlaceOfABlockEnd(t *testing.T) {
	// Given a last line that moves over the end of a block byte by byte
	for pad := range 2 * maxHead {
		log := logOf(10, "") + stamp + " stdout F " + strings.Repeat("p", tailBlock-2*maxHead+pad) + "\n" + stamp + " stdout F end\n"
		// When the last three lines are asked for
		at, err := tailOffset(t.Context(), strings.NewReader(log), int64(len(log)), 3)
		if err != nil {
			t.Fatal(err)
		}
		// Then they begin with the ninth
		if got := log[at:]; !strings.HasPrefix(got, stamp+" stdout F 9\n") {
			t.Fatalf("pad %d: got %.60q", pad, got)
		}
	}
}

// reads counts the bytes that are read of a log.
type reads struct {
	io.ReaderAt
	bytes int
}

func (r *reads) ReadAt(b []byte, at int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(b, at)
	r.bytes += n
	return n, err
}

func TestTailOffsetReadsOnlyTheEnd(t *testing.T) {
	log := []byte(strings.Repeat(stamp+" stdout F some text\n", 200_000))
	r := &reads{ReaderAt: bytes.NewReader(log)}
	if _, err := tailOffset(t.Context(), r, int64(len(log)), 100); err != nil {
		t.Fatal(err)
	}
	if limit := tailBlock + maxHead; r.bytes > limit {
		t.Errorf("read %d of %d bytes, want at most %d", r.bytes, len(log), limit)
	}
}
