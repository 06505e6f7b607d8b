// Package crilog reads container logs in the format that CRI runtimes write:
//
//	2026-01-02T03:04:05.000000000Z stdout F a whole line
//	2026-01-02T03:04:05.000000001Z stderr P the beginning of a long line,
//	2026-01-02T03:04:05.000000001Z stderr F  and its end
//
// Reader.Copy writes the text of such a log: all of it or its last lines, and
// with Follow whatever is added to it, across rotation, until the container has
// ended. Memory stays bounded however long a line is: only its head is held. A
// line that is not in the format is passed through as it is. Only regular files are
// read, and no links are followed to them, see open.
package crilog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// Options say what of a log is wanted, and how.
type Options struct {
	Tail       int64     // the last lines that are wanted; below 0 all of them
	Since      time.Time // leaves out lines that are older; zero leaves out none
	Follow     bool      // waits for new lines at the end
	Timestamps bool      // writes the time of each line before it
	LimitBytes int64     // ends after that many bytes were written; 0 is no limit

	// Done is closed when the container has ended, and ends Follow once
	// everything is read. Without it, Follow goes on until its context ends.
	Done <-chan struct{}
}

const (
	// readBlock is how much of a log is in memory at a time.
	readBlock = 32 << 10
	// settle is how long Follow waits for the last lines after a container has
	// ended: the runtime may still be writing what it took from the pipes.
	settle = 50 * time.Millisecond
)

// Reader reads logs. All that follow share its one inotify instance, because
// the kernel gives a user only some 128 of them. The instance is made when it is
// first needed.
type Reader struct {
	changes changes
}

// NewReader returns a reader. It is to be closed.
func NewReader(log *slog.Logger) *Reader {
	return &Reader{changes: changes{
		log:     log,
		folders: map[string]map[chan struct{}]struct{}{},
	}}
}

// Close ends the watch of the logs that were followed.
func (r *Reader) Close() error { return r.changes.close() }

// Copy writes the part of the log at path that o selects to w. If ctx ends first, it returns the
// error of ctx. It writes in blocks, and flushes them before it waits for more lines.
func (r *Reader) Copy(ctx context.Context, w io.Writer, path string, o Options) error {
	var changed <-chan struct{}
	if o.Follow {
		// Before the file is opened, so that no change goes unseen.
		c, unsubscribe, err := r.changes.subscribe(filepath.Dir(path))
		if err != nil {
			return fmt.Errorf("follow log %s: %w", path, err)
		}
		defer unsubscribe()
		changed = c
	}
	c, err := openLog(ctx, w, path, o)
	if err != nil {
		return fmt.Errorf("read log %s: %w", path, err)
	}
	defer func() { _ = c.file.Close() }()

	if o.Follow {
		err = c.follow(ctx, changed, o.Done)
	} else {
		err = c.copyN(ctx, c.size-c.at)
		c.decoder.endFile()
		err = errors.Join(err, c.out.Flush())
	}
	switch {
	case errors.Is(err, errLimit):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("read log %s: %w", path, err)
	}
	return nil
}

// copier is one run of Copy.
type copier struct {
	path    string
	file    *os.File
	at      int64 // how far file was read
	size    int64 // of file when it was opened
	decoder *decoder
	out     *bufio.Writer
	buf     []byte
}

func openLog(ctx context.Context, w io.Writer, path string, o Options) (_ *copier, err error) {
	file, err := open(path)
	if err != nil {
		return nil, refusal(path, err)
	}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	at := int64(0)
	if o.Tail >= 0 {
		if at, err = tailOffset(ctx, file, info.Size(), o.Tail); err != nil {
			return nil, fmt.Errorf("find the last %d lines: %w", o.Tail, err)
		}
	}
	if o.LimitBytes > 0 {
		w = &limitWriter{w: w, left: o.LimitBytes}
	}
	out := bufio.NewWriterSize(w, readBlock)
	return &copier{
		path: path, file: file, at: at, size: info.Size(),
		decoder: newDecoder(out, o), out: out, buf: make([]byte, readBlock),
	}, nil
}

// copyN decodes up to n more bytes of the file.
func (c *copier) copyN(ctx context.Context, n int64) error {
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		got, err := c.file.ReadAt(c.buf[:min(n, int64(len(c.buf)))], c.at)
		c.decoder.decode(c.buf[:got])
		c.at += int64(got)
		n -= int64(got)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		// An error of the writer stays in it. Asking here ends early.
		if _, err := c.out.Write(nil); err != nil {
			return err
		}
	}
	return nil
}

// copyAll decodes up to the present end of the file, and holds nothing back.
func (c *copier) copyAll(ctx context.Context) error {
	const toTheEnd = 1<<63 - 1
	if err := c.copyN(ctx, toTheEnd); err != nil {
		return err
	}
	return c.out.Flush()
}

func (c *copier) follow(ctx context.Context, changed, done <-chan struct{}) error {
	var settled <-chan time.Time
	for ended := false; ; {
		if err := c.copyAll(ctx); err != nil {
			return err
		}
		moved, err := c.next(ctx, ended)
		if err != nil {
			return err
		}
		if moved {
			continue
		}
		if ended {
			c.decoder.endFile()
			return c.out.Flush()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-done:
			done, settled = nil, time.After(settle)
		case <-settled:
			ended = true
		}
	}
}

// next goes on to the file that took the place of the present one, if there is
// such a file. It waits with that until something is in the new file, because
// the runtime makes it a moment before it turns away from the old one.
func (c *copier) next(ctx context.Context, ended bool) (bool, error) {
	old, err := c.file.Stat()
	if err != nil {
		return false, err
	}
	file, err := open(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // moved away, and the new one is not there yet
	}
	if err != nil {
		return false, refusal(c.path, err)
	}
	info, err := file.Stat()
	taken := false
	defer func() {
		if !taken {
			_ = file.Close()
		}
	}()
	switch {
	case err != nil:
		return false, err
	case os.SameFile(old, info):
		if info.Size() >= c.at {
			return false, nil
		}
		c.at = 0 // cut off in its place
		c.decoder.endFile()
		return true, nil
	case info.Size() == 0 && !ended:
		return false, nil
	}
	// What was added to the old file since it was last read.
	if err := c.copyAll(ctx); err != nil {
		return false, err
	}
	c.decoder.endFile()
	_ = c.file.Close()
	c.file, c.at, taken = file, 0, true
	return true, nil
}

// errLimit ends a copy that has written as much as it may.
var errLimit = errors.New("limit of bytes reached")

// limitWriter writes no more than left bytes.
type limitWriter struct {
	w    io.Writer
	left int64
}

func (l *limitWriter) Write(b []byte) (int, error) {
	if int64(len(b)) <= l.left {
		n, err := l.w.Write(b)
		l.left -= int64(n)
		return n, err
	}
	n, err := l.w.Write(b[:l.left])
	l.left -= int64(n)
	if err != nil {
		return n, err
	}
	return n, errLimit
}
