package node

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// lineRecorder records events and lines of the log.
type lineRecorder struct {
	mu    sync.Mutex
	lines []string
}

func (t *lineRecorder) RecordNode(kind, reason, _ string) { t.add(kind + " " + reason) }

func (t *lineRecorder) Write(line []byte) (int, error) {
	t.add(string(line))
	return len(line), nil
}

func (t *lineRecorder) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
}

func (t *lineRecorder) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() { t.lines = nil }()
	return t.lines
}

// bench is a reporter at work.
type bench struct {
	*Reporter
	*cluster
	events, log *lineRecorder

	mu      sync.Mutex
	facts   Facts
	blocked bool // the runtime hangs
	lost    int  // how often the connection was blamed
}

// start runs a reporter; it ends with the test.
func start(t *testing.T, c *cluster, change func(*Config)) *bench {
	b := &bench{cluster: c, events: &lineRecorder{}, log: &lineRecorder{}, facts: someFacts()}
	config := Config{
		Settings: Settings{Name: "box", Version: "test", Labels: map[string]string{"shelf": "3"}},
		Client:   c.client, Events: b.events,
		Log: slog.New(slog.NewTextHandler(b.log, nil)),
		Machine: func() (Machine, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.facts.Machine, nil
		},
		Addresses: func() ([]string, error) { return b.facts.Addresses, nil },
		Runtime: func(ctx context.Context) (Runtime, error) {
			b.mu.Lock()
			blocked, about := b.blocked, b.facts.Runtime
			b.mu.Unlock()
			if blocked {
				<-ctx.Done()
				return Runtime{}, ctx.Err()
			}
			return about, nil
		},
		Reconnect: func() { b.lost++ },
	}
	if change != nil {
		change(&config)
	}
	r, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	b.Reporter = r
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	synctest.Wait()
	return b
}

// startReady runs a reporter of a healthy machine until the Node is up to date.
func startReady(t *testing.T, c *cluster) *bench {
	return startReadyWith(t, c, nil)
}

func startReadyWith(t *testing.T, c *cluster, change func(*Config)) *bench {
	b := start(t, c, change)
	b.SetRuntime(nil)
	b.SetNetwork(nil)
	after(time.Second)
	if b.ready() != v1.ConditionTrue {
		t.Fatal("it is not ready")
	}
	b.take()
	b.events.take()
	b.log.take()
	return b
}

func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func isKnown(r *Reporter) bool {
	select {
	case <-r.Synced():
		return true
	default:
		return false
	}
}
