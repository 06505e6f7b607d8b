package crilog

import (
	"bytes"
	"context"
	"errors"
	"io"
)

const (
	// tailBlock is how much is read at a time from the end of a log.
	tailBlock = 64 << 10
	// maxLine is far more than runtimes put into a line: they write a longer one in parts.
	// What goes on for so long without a newline is no log, and counts as a line.
	maxLine = 1 << 20
)

// tailOffset returns where the last n lines of a log of the given size begin.
// It reads from the end, and no more than it needs to: n times maxLine, unless there are
// lines of many parts. Parts of a line count as the one line that they are printed as.
func tailOffset(ctx context.Context, log io.ReaderAt, size, n int64) (int64, error) {
	if n <= 0 {
		return size, nil
	}
	var (
		buf   = make([]byte, tailBlock+maxHead)
		after = size // where the line after the one in hand starts
		next  head   // and its head
		lines int64
	)
	// starts is called for each line, the last one first. It returns true if the
	// lines that are wanted begin at after.
	starts := func(start int64, h head) bool {
		if after < size && !h.continuedBy(next) {
			if lines++; lines == n {
				return true
			}
		}
		after, next = start, h
		return false
	}
	for end := size; end > 0; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		begin := max(0, end-tailBlock)
		// A head may reach past the block.
		b := buf[:min(size-begin, end-begin+maxHead)]
		if _, err := log.ReadAt(b, begin); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for at := end - begin; at >= 0; {
			// The byte before a line is the newline of the one before it. The
			// newline at the very end of the log starts no line.
			i := int64(bytes.LastIndexByte(b[:at], '\n'))
			at = i
			start := begin + i + 1
			if i < 0 && begin > 0 || start == size {
				continue
			}
			h, _ := parseHead(firstHead(b[i+1:]))
			if starts(start, h) {
				return after, nil
			}
		}
		if begin > 0 && after-begin > maxLine && starts(begin, head{}) {
			return after, nil
		}
		end = begin
	}
	return 0, nil
}

// firstHead is the head that b begins with.
func firstHead(b []byte) []byte {
	b = b[:min(len(b), maxHead)]
	n, _ := headLen(b)
	return b[:n]
}
