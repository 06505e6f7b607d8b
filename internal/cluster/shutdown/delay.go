package shutdown

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	reloadTimeout  = 3 * time.Second
	reloadInterval = 100 * time.Millisecond
)

// lengthen makes logind wait for as long as all periods take: if its InhibitDelayMaxSec is shorter,
// a drop-in file raises it, as the kubelet does. If that does not help, a warning says what to do;
// a shutdown is delayed all the same, for as long as logind allows.
func (w *Watcher) lengthen(ctx context.Context, logind Logind) error {
	need := total(w.Manager.Periods)
	have, err := logind.Delay(ctx)
	if err != nil {
		return err
	}
	if have < need {
		var read time.Duration
		if read, err = w.override(ctx, logind, need); err == nil {
			have = read
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if have >= need {
		w.short = false
		return nil
	}
	if w.short {
		return nil
	}
	w.short = true
	if err == nil {
		err = fmt.Errorf("%s changes nothing", w.DropIn)
	}
	w.Log.Warn(fmt.Sprintf("systemd waits no longer than %s for a shutdown, and the configured periods take %s: put 'InhibitDelayMaxSec=%d' under [Login] into /etc/systemd/logind.conf, and reload systemd-logind",
		have, need, seconds(need)), "err", err)
	return nil
}

// override writes the drop-in file, waits until logind has read it, and returns the new delay.
func (w *Watcher) override(ctx context.Context, logind Logind, need time.Duration) (time.Duration, error) {
	text := fmt.Sprintf("# Written by berth, so that pods have the time to stop that its configuration gives them.\n[Login]\nInhibitDelayMaxSec=%d\n", seconds(need))
	if err := writeIfOther(w.DropIn, []byte(text)); err != nil {
		return 0, err
	}
	if err := logind.Reload(ctx); err != nil {
		return 0, err
	}
	timeout := time.After(reloadTimeout)
	for {
		have, err := logind.Delay(ctx)
		if err != nil || have >= need {
			return have, err
		}
		select {
		case <-time.After(reloadInterval):
		case <-timeout:
			return have, nil
		case <-ctx.Done():
			return have, ctx.Err()
		}
	}
}

// seconds returns a duration in whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// writeIfOther writes a world-readable file, unless it has this content already.
func writeIfOther(path string, content []byte) error {
	if is, err := os.ReadFile(path); err == nil && bytes.Equal(is, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
