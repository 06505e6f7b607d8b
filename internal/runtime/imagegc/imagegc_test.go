package imagegc

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/lib/statefile"
)

// world is a disk of 100 bytes, with images on it and nothing else.
type world struct {
	images  []RuntimeImage
	used    map[string]string
	stuck   map[string]error
	removed []string
	rounds  int
	warned  []string
	broken  error // why the disk can't be measured
	log     strings.Builder
	file    string
}

func (w *world) collector(t *testing.T, p Policy) *Collector {
	t.Helper()
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	keeper, err := statefile.New(statefile.Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{
		Policy: p, File: keeper.File(w.file, "when images were used"), Log: log,
		Images: func(context.Context) ([]RuntimeImage, error) { return slices.Clone(w.images), nil },
		InUse:  func(context.Context) (map[string]string, error) { return w.used, nil },
		Disk: func(context.Context) (Disk, error) {
			if w.broken != nil {
				return Disk{}, w.broken
			}
			d := Disk{100, 100}
			for _, i := range w.images {
				d.Available -= i.Size
			}
			return d, nil
		},
		Remove: func(_ context.Context, id string) error {
			if err := w.stuck[id]; err != nil {
				return err
			}
			w.removed = append(w.removed, id)
			w.images = slices.DeleteFunc(w.images, func(f RuntimeImage) bool { return f.ID == id })
			return nil
		},
		OnRound: func(map[string]bool, time.Time) { w.rounds++ },
		Warn:    func(reason, message string) { w.warned = append(w.warned, reason+": "+message) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newWorld(t *testing.T) *world {
	return &world{file: filepath.Join(t.TempDir(), "used.json"), used: map[string]string{}, images: []RuntimeImage{
		{ID: "1", Names: []string{"localhost/a:1"}, Size: 40}, {ID: "2", Names: []string{"localhost/b:1"}, Size: 30}, {ID: "3", Size: 20, Pinned: true},
	}}
}

var policy = Policy{High: 85, Low: 60, MinAge: 2 * time.Minute}

func TestRoomIsMadeAsTimeGoesOn(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.used["localhost/b:1"] = "pod x/y uses it"
		c := w.collector(t, policy)
		go c.Run(ctx)
		time.Sleep(time.Minute)
		synctest.Wait()
		c.mu.Lock()
		if len(w.removed) != 0 { // all are young
			t.Fatalf("removed %v", w.removed)
		}
		c.mu.Unlock()
		time.Sleep(collectInterval)
		synctest.Wait()
		if !slices.Equal(w.removed, []string{"1"}) || w.rounds != 1 || len(w.warned) != 0 {
			t.Fatalf("removed %v in %d rounds, warned %v", w.removed, w.rounds, w.warned)
		}
		if text := w.log.String(); !strings.Contains(text, "there is room") {
			t.Errorf("the log is %s", text)
		}
		if c.Size("localhost/a:1") != 40 || c.Size("localhost/none:1") != 0 {
			t.Error("sizes of images that are gone are not known")
		}
	})
}

func TestAllGoesThatCanBeSparedWhenTheDiskIsShort(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		// given images that may stay by the policy
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.used["localhost/b:1"] = "pod x/y uses it"
		c := w.collector(t, Policy{High: 100, Low: 100, MinAge: 2 * time.Minute})
		short := make(chan struct{}, 1)
		c.Short = short
		go c.Run(ctx)
		time.Sleep(3 * time.Minute)

		// when the disk is short of something, then unused images are removed at once
		short <- struct{}{}
		synctest.Wait()
		c.mu.Lock()
		if !slices.Equal(w.removed, []string{"1"}) {
			t.Errorf("removed %v", w.removed)
		}
		rounds := w.rounds
		c.mu.Unlock()

		// and if that does not help, it is looked again, but not all the time
		for range 60 {
			select {
			case short <- struct{}{}:
			default:
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		if w.rounds != rounds+2 {
			t.Errorf("%d rounds in a minute", w.rounds-rounds)
		}
	})
}

func TestUsersAreWarnedOfWhatLasts(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		// given a disk that is full of what is in use
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.used["1"], w.used["2"] = "pod x/y uses it", "pod x/y uses it"
		c := w.collector(t, policy)
		after := func(rounds time.Duration, change func(), want ...string) {
			t.Helper()
			c.mu.Lock() // it calls us under its lock
			w.warned = nil
			change()
			c.mu.Unlock()
			time.Sleep(rounds * collectInterval)
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(w.warned) != len(want) {
				t.Fatalf("warned %q, want %q", w.warned, want)
			}
			for i, begin := range want {
				if !strings.HasPrefix(w.warned[i], begin) {
					t.Errorf("warned %q, want %q", w.warned[i], begin)
				}
			}
		}

		// then the first failed round causes no warning, and the following do, with the same text
		after(0, func() { go c.Run(ctx) })
		full := "the disk of the images is 90% full, and should come down to 60%"
		after(2, func() {}, "FreeDiskSpaceFailed: "+full, "ImageGCFailed: "+full, "FreeDiskSpaceFailed: "+full, "ImageGCFailed: "+full)

		// when something else is wrong, then it says that
		after(1, func() { w.broken = errors.New("no disk") }, "ImageGCFailed: no disk")

		// when rounds succeed, then there is no warning, nor for a single failure
		after(2, func() { w.broken, w.used = nil, nil })
		after(1, func() { w.broken = errors.New("no disk") })
		after(1, func() { w.broken = nil })
		c.mu.Lock()
		defer c.mu.Unlock()
		if warnings := strings.Count(w.log.String(), "can't make room"); warnings != 2 {
			t.Errorf("the log is reported %d times:\n%s", warnings, w.log.String())
		}
	})
}

func TestARestartDoesNotForget(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.used["1"] = "pod x/y uses it"
		if _, err := w.collector(t, policy).Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(w.file)
		time.Sleep(time.Hour)
		if _, err := w.collector(t, policy).Preview(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if after, _ := os.ReadFile(w.file); string(after) != string(before) {
			t.Error("the file is written although nothing is new")
		}
		// It is of no use from now on, and 2 was not for an hour.
		delete(w.used, "1")
		r, err := w.collector(t, policy).Preview(t.Context(), false)
		if err != nil || r.Verdicts[0].ID != "2" || !r.Verdicts[0].Remove || len(w.removed) != 0 {
			t.Fatalf("got %+v, %v", r, err)
		}
		if r.Verdicts[0].Seen.Add(time.Hour).After(time.Now()) || r.Verdicts[2].LastUsed != time.Now() {
			t.Errorf("got %+v", r.Verdicts)
		}
	})
}

func TestAnImageThatCanNotGoDoesNotKeepTheOthers(t *testing.T) {
	w := newWorld(t)
	w.stuck = map[string]error{"1": errors.New("busy")}
	c := w.collector(t, Policy{High: 85, Low: 0})
	r, err := c.Collect(t.Context())
	if err != nil || !slices.Equal(w.removed, []string{"2"}) || r.Freed != 30 || len(r.Errors) != 1 {
		t.Errorf("removed %v: %+v, %v", w.removed, r, err)
	}
}

func TestFreeTakesAllThatCanBeSpared(t *testing.T) {
	w := newWorld(t)
	r, err := w.collector(t, Policy{High: 100, Low: 100}).Free(t.Context())
	if err != nil || !slices.Equal(w.removed, []string{"1", "2"}) || r.Freed != 70 {
		t.Errorf("removed %v: %+v, %v", w.removed, r, err)
	}
}

func TestABrokenMemoryIsBegunAnew(t *testing.T) {
	w := newWorld(t)
	if err := os.WriteFile(w.file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.collector(t, policy).Collect(t.Context()); err != nil || len(w.removed) != 0 {
		t.Errorf("removed %v, %v", w.removed, err)
	}
	if !strings.Contains(w.log.String(), "not known") {
		t.Error("it was not reported")
	}
}

func TestNothingGoesForLackOfRoomBeforeAllPodsAreKnown(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		// given a disk that is short of room before all pods are known
		short, known := make(chan struct{}, 1), make(chan struct{})
		c := w.collector(t, Policy{High: 100, Low: 100})
		c.Short, c.PodsSynced = short, known
		short <- struct{}{}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go c.Run(ctx)
		time.Sleep(time.Minute)
		if len(w.removed) > 0 {
			t.Fatalf("removed %v", w.removed)
		}

		// when they are, then all goes that can be spared
		close(known)
		synctest.Wait()
		if !slices.Equal(w.removed, []string{"1", "2"}) {
			t.Errorf("removed %v", w.removed)
		}
	})
}

func TestADiskThatCanNotBeWrittenKeepsNoImage(t *testing.T) {
	// given images that have to go, on a disk on which nothing can be written
	w := newWorld(t)
	w.file = "/proc/used.json"
	c := w.collector(t, Policy{High: 85, Low: 0})

	// when a round is made, then they go, and the log says once what is lost
	for range 2 {
		if _, err := c.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(w.removed, []string{"1", "2"}) {
		t.Errorf("removed %v", w.removed)
	}
	if lines := strings.Count(w.log.String(), "can't write when images were used"); lines != 1 {
		t.Errorf("the log says it %d times:\n%s", lines, w.log.String())
	}
}

func TestNewChecks(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("it was made of nothing")
	}
	c := newWorld(t).collector(t, policy).Config
	c.Policy = Policy{High: 50, Low: 60}
	if _, err := New(c); err == nil {
		t.Error("it was made although its thresholds are the wrong way round")
	}
}

func TestOneBadEntryOfTheMemoryCostsNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "used.json")
	const text = `{"images": {"a": {"seen": "2026-01-02T03:04:05Z"}, "b": 7}, "sizes": {"x": {"bytes": 5}, "y": "large"}, "more": []}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m := readMemory(path, slog.New(slog.DiscardHandler))
	_, err := os.Stat(path + ".corrupt")
	if err != nil || len(m.Images) != 1 || m.Images["a"].Seen.IsZero() || len(m.Sizes) != 1 || m.Sizes["x"].Bytes != 5 {
		t.Errorf("have %+v, %v", m, err)
	}
}

func TestADiskWithoutASizeIsAWarning(t *testing.T) {
	w := newWorld(t)
	c := w.collector(t, policy)
	c.Disk = func(context.Context) (Disk, error) { return Disk{}, nil }
	if _, err := c.Collect(t.Context()); !errors.Is(err, errNoCapacity) {
		t.Fatalf("got %v", err)
	}
	c.warn(errNoCapacity)
	if len(w.warned) != 2 || !strings.HasPrefix(w.warned[0], "InvalidDiskCapacity: invalid capacity 0") {
		t.Errorf("warned %q", w.warned)
	}
}
