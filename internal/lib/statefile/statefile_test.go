package statefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/lib/run"
)

// disk is a disk on which writes fail while err is set.
type disk struct {
	err      error
	attempts int
	content  string
}

func (d *disk) write(newest *string) func() error {
	return func() error {
		d.attempts++
		if d.err == nil {
			d.content = *newest
		}
		return d.err
	}
}

func newKeeper(t *testing.T, log *bytes.Buffer, full func()) *Keeper {
	t.Helper()
	k, err := New(Config{Log: slog.New(slog.NewTextHandler(log, nil)), Full: full})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestWhatCouldNotBeWrittenIsTriedAgain(t *testing.T) {
	for name, why := range map[string]error{"full": unix.ENOSPC, "read-only": unix.EROFS} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// given a disk that can't be written, and an entry that changes meanwhile
				var log bytes.Buffer
				full := 0
				k := newKeeper(t, &log, func() { full++ })
				d, newest := &disk{err: fmt.Errorf("write: %w", why)}, "old"
				e := k.Entry("the settings", d.write(&newest))
				if err := e.Save(); !errors.Is(err, why) {
					t.Fatalf("it was written: %v", err)
				}
				newest = "new"
				group := run.NewGroup(t.Context(), slog.New(slog.DiscardHandler))
				group.Go("keeper", k.Run)

				// then it is tried at growing intervals, the longest of which is a minute
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if d.attempts < 10 || d.attempts > 20 {
					t.Errorf("%d attempts in ten minutes", d.attempts)
				}
				if got := full > 0; got != (name == "full") {
					t.Errorf("it was reported %d times that the disk is full", full)
				}
				// and the log has one line
				if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "the settings") {
					t.Errorf("the log has %d lines:\n%s", lines, log.String())
				}

				// when there is room and Retry is called, then the newest content is on disk at
				// once
				d.err = nil
				k.Retry()
				synctest.Wait()
				if d.content != "new" || strings.Count(log.String(), "\n") != 2 {
					t.Errorf("on the disk is %q; the log:\n%s", d.content, log.String())
				}
				before := d.attempts
				time.Sleep(time.Hour)
				if d.attempts != before {
					t.Errorf("%d more attempts once it was written", d.attempts-before)
				}
				group.Stop()
			})
		})
	}
}

func TestTheEndIsALastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		k := newKeeper(t, &log, nil)
		d, newest := &disk{err: unix.ENOSPC}, "new"
		_ = k.Entry("it", d.write(&newest)).Save()
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			k.Run(ctx)
		}()
		synctest.Wait()
		d.err = nil
		end()
		<-done
		if d.content != "new" {
			t.Error("there was room at the end, and it was not used")
		}
	})
}

func TestAFileIsWrittenAgainOnlyIfItDiffers(t *testing.T) {
	var log bytes.Buffer
	k := newKeeper(t, &log, nil)
	for _, f := range []*File{k.File(filepath.Join(t.TempDir(), "sub", "a.json"), "a"), k.FileForGood(filepath.Join(t.TempDir(), "b.json"), "b")} {
		for _, content := range []string{"one", "two"} {
			if err := f.Save([]byte(content)); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(f.Path()); err != nil || string(got) != content {
				t.Errorf("it holds %q: %v", got, err)
			}
		}
		if err := os.Remove(f.Path()); err != nil {
			t.Fatal(err)
		}
		if err := f.Save([]byte("two")); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(f.Path()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("what had not changed was written: %v", err)
		}
	}
}

func TestAFileComesLateWithItsNewestContent(t *testing.T) {
	// given a file whose folder can't be made
	var log bytes.Buffer
	k := newKeeper(t, &log, nil)
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := k.File(filepath.Join(dir, "a.json"), "a")
	for _, content := range []string{"one", "two"} {
		if err := f.Save([]byte(content)); err == nil {
			t.Fatal("it was written")
		}
	}

	// when it can
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if !k.saveAll() {
		t.Fatal("it was not written")
	}

	// then it has the newest content
	if got, err := os.ReadFile(f.Path()); err != nil || string(got) != "two" {
		t.Errorf("it holds %q: %v", got, err)
	}
}
