package localapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/api"
)

// fakeDrains is a drain that tests steer.
type fakeDrains struct {
	mu     sync.Mutex
	asked  api.DrainRequest
	refuse error
	undone int
	steps  chan api.DrainEvent // what it tells; closed: it is done
	left   []string
	ended  chan error // why a drain ended early
}

func newDrains() *fakeDrains {
	return &fakeDrains{steps: make(chan api.DrainEvent), ended: make(chan error, 1)}
}

func (f *fakeDrains) Drain(ctx context.Context, r api.DrainRequest, onEvent func(api.DrainEvent)) ([]string, error) {
	f.mu.Lock()
	f.asked = r
	refuse := f.refuse
	f.mu.Unlock()
	if refuse != nil {
		return nil, refuse
	}
	onEvent(api.DrainEvent{Step: api.DrainBegan, Pods: 2})
	for {
		select {
		case e, more := <-f.steps:
			if !more {
				return f.left, nil
			}
			onEvent(e)
		case <-ctx.Done():
			f.ended <- ctx.Err()
			return nil, ctx.Err()
		}
	}
}

func (f *fakeDrains) Undo(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.undone++
	return f.refuse
}

// send makes a request of any method, which ends with the test.
func (s *station) send(ctx context.Context, method, url string) *http.Response {
	s.t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, "http://berth"+url, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := s.client.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = r.Body.Close() })
	return r
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	line, err := bufio.NewReader(r.Body).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func TestDrain(t *testing.T) {
	s := start(t, 0)
	answer := s.send(t.Context(), http.MethodPost, "/v1/drain?grace=5&timeout=1m30s&keepStatic=true")
	lines := json.NewDecoder(answer.Body)
	next := func(step api.DrainStep) api.DrainEvent {
		t.Helper()
		var e api.DrainEvent
		if err := lines.Decode(&e); err != nil || e.Step != step {
			t.Fatalf("got %+v, %v, want %s", e, err, step)
		}
		return e
	}
	if e := next(api.DrainBegan); e.Pods != 2 { // it comes before anything else happens
		t.Errorf("got %+v", e)
	}
	if a := s.drains.asked; a.Grace == nil || *a.Grace != 5 || a.Timeout != 90*time.Second || !a.KeepStatic {
		t.Errorf("asked for %+v", a)
	}
	s.drains.steps <- api.DrainEvent{Step: api.DrainStopped, Pod: "default/web", Seconds: 1.2}
	if e := next(api.DrainStopped); e.Pod != "default/web" || e.Seconds != 1.2 {
		t.Errorf("got %+v", e)
	}
	s.drains.left = []string{"default/db"}
	close(s.drains.steps)
	if e := next(api.DrainDone); len(e.Left) != 1 || e.Left[0] != "default/db" {
		t.Errorf("got %+v", e)
	}
}

func TestADrainEndsWithItsReader(t *testing.T) {
	s := start(t, 0)
	ctx, leave := context.WithCancel(t.Context())
	s.send(ctx, http.MethodPost, "/v1/drain")
	if a := s.drains.asked; a.Grace != nil || a.Timeout != 0 || a.KeepStatic {
		t.Errorf("asked for %+v", a)
	}
	leave()
	select {
	case err := <-s.drains.ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it goes on")
	}
}

func TestADrainThatIsInterruptedSaysSo(t *testing.T) {
	s := start(t, 0)
	answer := s.send(t.Context(), http.MethodPost, "/v1/drain")
	lines := json.NewDecoder(answer.Body)
	var e api.DrainEvent
	if err := lines.Decode(&e); err != nil {
		t.Fatal(err)
	}
	go s.stop()
	if err := lines.Decode(&e); err != nil || e.Step != api.DrainFailed || e.Error == "" {
		t.Errorf("got %+v, %v", e, err)
	}
}

func TestDrainsThatAreRefused(t *testing.T) {
	s := start(t, 0)
	for query, want := range map[string]string{"grace=-1": "not below 0", "timeout=soon": "such as 30s", "timeout=-1s": "such as 30s", "keepStatic=maybe": "true or false"} {
		if r := s.send(t.Context(), http.MethodPost, "/v1/drain?"+query); r.StatusCode != http.StatusBadRequest || !strings.Contains(text(t, r), want) {
			t.Errorf("%s: got %s", query, r.Status)
		}
	}
	s.drains.refuse = errors.New("another one goes on")
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		if r := s.send(t.Context(), method, "/v1/drain"); r.StatusCode != http.StatusConflict || text(t, r) != "another one goes on" {
			t.Errorf("%s: got %s", method, r.Status)
		}
	}
	if r := s.send(t.Context(), http.MethodGet, "/v1/drain"); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("got %s", r.Status)
	}
}

func TestUndoOfADrain(t *testing.T) {
	s := start(t, 0)
	if r := s.send(t.Context(), http.MethodDelete, "/v1/drain"); r.StatusCode != http.StatusOK || s.drains.undone != 1 {
		t.Errorf("got %s, undone %d times", r.Status, s.drains.undone)
	}
}

func TestANodeThatCanNotBeDrained(t *testing.T) {
	server, err := New(Config{Pods: &fakePods{}, Logs: fakeLogs{}, Log: discard()})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/drain", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if p := server.serveDrain(nil, request); p == nil || p.code != http.StatusNotImplemented {
		t.Errorf("got %+v", p)
	}
	if _, p := server.undoDrain(request); p == nil || p.code != http.StatusNotImplemented {
		t.Errorf("got %+v", p)
	}
}
