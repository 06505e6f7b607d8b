package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeRuntime is a runtime, and the Node that a ReadinessMonitor reports its status to.
type fakeRuntime struct {
	hints chan struct{}
	log   *lineRecorder

	mu     sync.Mutex
	says   RuntimeStatus
	silent error // there is no answer
	hangs  bool  // there is none, and no error either
	calls  []HungCall
	stuck  bool // the sync loop is
	asked  int
	shown  []string // the reported states, each time that one changed
}

var errNoConnection = errors.New("no connection")

func startReadiness(t *testing.T) *fakeRuntime {
	p := &fakeRuntime{hints: make(chan struct{}, 1), log: &lineRecorder{}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ReadinessMonitor{Status: p.ask, Unanswered: p.unanswered, Alive: p.alive, Recheck: p.hints, Node: p, Log: slog.New(slog.NewTextHandler(p.log, nil))}.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	synctest.Wait()
	return p
}

func (p *fakeRuntime) ask(ctx context.Context) (RuntimeStatus, error) {
	p.mu.Lock()
	p.asked++
	says, silent, hangs := p.says, p.silent, p.hangs
	p.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return RuntimeStatus{}, ctx.Err()
	}
	return says, silent
}

func (p *fakeRuntime) unanswered() []HungCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

func (p *fakeRuntime) alive(ctx context.Context) error {
	p.mu.Lock()
	stuck := p.stuck
	p.mu.Unlock()
	if stuck {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (p *fakeRuntime) SetSyncLoop(err error) {
	if err != nil {
		p.add("loop", err)
		return
	}
	p.mu.Lock()
	loopShown := strings.Contains(strings.Join(p.shown, ", "), "loop")
	p.mu.Unlock()
	if loopShown { // else the state of the loop never changed
		p.add("loop", nil)
	}
}

func (p *fakeRuntime) SetRuntime(err error) { p.add("runtime", err) }
func (p *fakeRuntime) SetNetwork(err error) { p.add("network", err) }

func (p *fakeRuntime) add(what string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := what + " ready"
	if err != nil {
		line = what + ": " + err.Error()
	}
	for i := len(p.shown) - 1; i >= 0; i-- {
		if strings.HasPrefix(p.shown[i], what) {
			if p.shown[i] == line {
				return
			}
			break
		}
	}
	p.shown = append(p.shown, line)
}

// becomes changes the runtime, and sends a hint if noticed.
func (p *fakeRuntime) becomes(noticed bool, change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	if noticed {
		p.hints <- struct{}{}
	}
}

// take returns the states that were reported to the Node, and the number of Status calls, since the
// last take.
func (p *fakeRuntime) take() (shown string, asked int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	shown, asked = strings.Join(p.shown[min(2, len(p.shown)):], ", "), p.asked
	p.asked = 0
	return shown, asked
}

func TestARuntimeIsAskedAtOnceWhenSomethingHintsAtAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startReadiness(t)
		after(time.Minute)
		if shown, asked := p.take(); shown != "" || asked != 13 {
			t.Errorf("asked %d times, reported %q", asked, shown)
		}
		p.becomes(true, func() { p.says.Network = errors.New("no plugin") })
		synctest.Wait()
		if shown, _ := p.take(); shown != "network: no plugin" {
			t.Errorf("reported %q", shown)
		}
		p.becomes(true, func() { p.says.Network = nil })
		synctest.Wait()
		if shown, _ := p.take(); shown != "network: no plugin, network ready" {
			t.Errorf("reported %q", shown)
		}
		// Calm returns soon.
		after(time.Minute)
		if _, asked := p.take(); asked > 20 {
			t.Errorf("asked %d times", asked)
		}
		if lines := p.log.take(); len(lines) != 2 {
			t.Errorf("logged %q", lines)
		}
	})
}

func TestARuntimeThatNoticesLaterThanWeDoIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startReadiness(t)
		p.becomes(true, func() {})
		after(50 * time.Millisecond)
		p.becomes(false, func() { p.says.Network = errors.New("no plugin") })
		after(50 * time.Millisecond)
		if shown, _ := p.take(); shown != "network: no plugin" {
			t.Errorf("reported %q", shown)
		}
	})
}

func TestARuntimeThatIsRestartedMakesNoNodeUnready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startReadiness(t)
		after(7 * time.Second)
		p.becomes(true, func() { p.silent = errNoConnection })
		after(9 * time.Second)
		p.becomes(true, func() { p.silent = nil })
		after(time.Minute)
		if shown, asked := p.take(); shown != "" || asked > 50 {
			t.Errorf("asked %d times, reported %q", asked, shown)
		}
	})
}

func TestARuntimeThatStaysAwayIsNotReady(t *testing.T) {
	for name, away := range map[string]func(*fakeRuntime){
		"no connection": func(p *fakeRuntime) { p.silent = errNoConnection },
		"it hangs":      func(p *fakeRuntime) { p.hangs = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := startReadiness(t)
				p.becomes(true, func() { away(p) })
				after(9 * time.Second)
				if shown, _ := p.take(); shown != "" {
					t.Errorf("reported too early: %q", shown)
				}
				after(2 * time.Second)
				shown, _ := p.take()
				if !strings.HasPrefix(shown, "runtime: ") || strings.Contains(shown, "network") {
					t.Errorf("reported %q", shown)
				}
				// The runtime comes back, without a hint.
				p.becomes(false, func() { p.silent, p.hangs = nil, false })
				after(12 * time.Second)
				if now, _ := p.take(); now != shown+", runtime ready" {
					t.Errorf("reported %q", now)
				}
				if lines := p.log.take(); len(lines) != 2 {
					t.Errorf("logged %q", lines)
				}
			})
		})
	}
}

func TestARuntimeThatHangsAtOneCallIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startReadiness(t)
		p.becomes(false, func() { p.calls = []HungCall{{Name: "ListContainers", Since: time.Now()}} })
		after(55 * time.Second)
		if shown, _ := p.take(); shown != "" {
			t.Errorf("reported too early: %q", shown)
		}
		after(10 * time.Second)
		if shown, _ := p.take(); shown != "runtime: ListContainers has not answered for 1m0s" {
			t.Errorf("reported %q", shown)
		}
		// It says for how long, in steps.
		after(2 * time.Minute)
		if shown, _ := p.take(); !strings.HasSuffix(shown, "for 1m0s, runtime: ListContainers has not answered for 2m0s, runtime: ListContainers has not answered for 3m0s") {
			t.Errorf("reported %q", shown)
		}
		p.becomes(false, func() { p.calls = nil })
		after(5 * time.Second)
		if shown, _ := p.take(); !strings.HasSuffix(shown, "3m0s, runtime ready") {
			t.Errorf("reported %q", shown)
		}
		if lines := p.log.take(); len(lines) != 2 {
			t.Errorf("logged %q", lines)
		}
	})
}

func TestARuntimeThatHangsAtAllNamesTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startReadiness(t)
		p.becomes(true, func() {
			p.hangs = true
			p.calls = []HungCall{{Name: "Status", Since: time.Now()}, {Name: "ListImages", Since: time.Now().Add(time.Hour)}}
		})
		after(12 * time.Second)
		if shown, _ := p.take(); shown != "runtime: Status has not answered for 10s" {
			t.Errorf("reported %q", shown)
		}
	})
}

func TestASyncLoopThatIsStuckMakesTheNodeUnready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startReadiness(t)
		p.becomes(false, func() { p.stuck = true })
		after(55 * time.Second)
		if shown, _ := p.take(); shown != "" {
			t.Errorf("reported too early: %q", shown)
		}
		after(15 * time.Second)
		if shown, _ := p.take(); shown != "loop: it has not gone round for 1m0s" {
			t.Errorf("reported %q", shown)
		}
		p.becomes(false, func() { p.stuck = false })
		after(10 * time.Second)
		if shown, _ := p.take(); !strings.HasSuffix(shown, "1m0s, loop ready") {
			t.Errorf("reported %q", shown)
		}
		if lines := p.log.take(); len(lines) != 2 {
			t.Errorf("logged %q", lines)
		}
	})
}

func TestHungNamesTheCallsAndForHowLong(t *testing.T) {
	now := time.Now()
	for want, calls := range map[string][]HungCall{
		"<nil>": {{Name: "Version", Since: now.Add(-59 * time.Second)}},
		"ListContainers has not answered for 2m0s":            {{Name: "ListContainers", Since: now.Add(-130 * time.Second)}, {Name: "Status", Since: now}},
		"ListPodSandbox, Status have not answered for 1h0m0s": {{Name: "Status", Since: now.Add(-time.Hour)}, {Name: "ListPodSandbox", Since: now.Add(-2 * time.Minute)}},
		"Status has not answered for 5m0s: no connection":     {{Name: "Status", Since: now.Add(-5 * time.Minute), Err: errNoConnection}},
	} {
		if got := fmt.Sprint(Hung(calls, now, HangTimeout)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	why := Health{SyncLoop: errors.New("it has not gone round for 1m0s")}.notReadyReason()
	if why != "sync loop not ready: it has not gone round for 1m0s" {
		t.Errorf("a node says %q", why)
	}
}
