package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"berth/internal/lib/logonce"
	"berth/internal/lib/statefile"
)

const (
	maxLog           = 10 << 20
	logCheckInterval = time.Minute
)

// boundLog keeps containerd's log small until ctx ends. containerd writes to the file itself
// and does not notice.
func boundLog(ctx context.Context, path string, log *slog.Logger) {
	tick := time.NewTicker(logCheckInterval)
	defer tick.Stop()
	var streak logonce.Streak
	for {
		err := trimLog(path, maxLog)
		switch {
		case err == nil:
			streak.Recovered()
		case streak.Failed(time.Now()):
			log.Warn("containerd's log is not kept small", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// trimLog moves the end of a log that is longer than limit to path.1, and empties
// the log. Its writer appends, so it goes on at the start; what it writes between
// the two steps is lost. If there is no room for that, the end of the log goes, too.
func trimLog(path string, limit int64) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("trim log: %w", err)
	}
	if info.Size() <= limit {
		return nil
	}
	err = copyEnd(path, oldLog(path), info.Size()-limit)
	if statefile.IsFull(err) {
		err = os.Remove(oldLog(path))
	}
	if err != nil {
		return fmt.Errorf("keep end of log: %w", err)
	}
	if err := os.Truncate(path, 0); err != nil {
		return fmt.Errorf("trim log: %w", err)
	}
	return nil
}

// oldLog returns the path of the file that keeps the end of a trimmed log.
func oldLog(path string) string { return path + ".1" }

func copyEnd(from, to string, offset int64) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if _, err := in.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
