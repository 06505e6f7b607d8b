package credential

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	plugin "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"berth/internal/runtime/keyring"
)

const (
	// maxAsked is how many questions a plugin is asked at a time.
	maxAsked = 4
	// maxKept is how many answers are kept. They are kept by registry, mostly.
	maxKept = 1000
	// keepFailure is how long a failure stands, so that those who ask for the same do not
	// each run into it. That of a plugin which does not answer costs the most.
	keepFailure = 5 * time.Second
	keepSilence = 30 * time.Second
)

// question is what a plugin is asked: for a repository, on behalf of somebody.
type question struct{ repository, who string }

// key is for what else an answer of a kind holds.
func (q question) key(kind plugin.PluginCacheKeyType) string {
	switch kind {
	case plugin.ImagePluginCacheKeyType:
		return "image " + q.repository + " " + q.who
	case plugin.RegistryPluginCacheKeyType:
		return "registry " + q.host() + " " + q.who
	default:
		return "global " + q.who
	}
}

func (q question) host() string {
	host, _, _ := strings.Cut(q.repository, "/")
	return host
}

// failed and silent are where failures are kept: one of a question, and that a plugin does
// not answer, whoever asks for the same registry.
func (q question) failed() string { return "failed " + q.key(plugin.ImagePluginCacheKeyType) }
func (q question) silent() string { return "silent " + q.host() }

// answer is what a plugin said.
type answer struct {
	ring  keyring.Ring
	err   error
	kind  plugin.PluginCacheKeyType
	until time.Time
}

// answers are what a plugin said, for as long as it holds. The same question is asked
// once for all who wait for its answer, and a few different ones at a time.
type answers struct {
	turns chan struct{} // holds a value for each question that is being asked

	mu    sync.Mutex
	kept  map[string]answer
	asked map[question]*asking
}

// asking is a question that somebody asks, for all who wait.
type asking struct {
	done chan struct{}
	// answer is set when done is closed. It is nil if the one who asked went away.
	answer *answer
}

func newAnswers() *answers {
	return &answers{turns: make(chan struct{}, maxAsked), kept: map[string]answer{}, asked: map[question]*asking{}}
}

// get returns the answer to a question that is known, or has it asked by ask.
func (s *answers) get(ctx context.Context, q question, ask func() answer) (keyring.Ring, error) {
	for {
		a, begun, mine := s.begin(q)
		if begun == nil {
			return a.ring, a.err
		}
		if mine {
			a, err := s.ask(ctx, q, ask)
			s.end(q, begun, a)
			if err != nil {
				return nil, err
			}
			return a.ring, a.err
		}
		select {
		case <-begun.done:
			if a := begun.answer; a != nil {
				return a.ring, a.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// begin returns what is known, or else the question that is being asked, and whether that
// is up to the caller.
func (s *answers) begin(q question) (a answer, begun *asking, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.find(q); ok {
		return a, nil, false
	}
	begun = s.asked[q]
	if begun == nil {
		begun, mine = &asking{done: make(chan struct{})}, true
		s.asked[q] = begun
	}
	return answer{}, begun, mine
}

// ask waits for a turn, and asks unless somebody got an answer meanwhile that holds for
// this question, too. It fails if the caller goes away: that says nothing of the plugin.
func (s *answers) ask(ctx context.Context, q question, ask func() answer) (*answer, error) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	a, ok := s.find(q)
	s.mu.Unlock()
	if ok {
		return &a, nil
	}
	a = ask()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(q, a)
	return &a, nil
}

// end hands an answer to those who wait.
func (s *answers) end(q question, begun *asking, a *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun.answer = a
	delete(s.asked, q)
	close(begun.done)
}

// find looks for an answer that holds. The caller holds the lock.
func (s *answers) find(q question) (answer, bool) {
	for _, key := range []string{
		q.key(plugin.ImagePluginCacheKeyType), q.key(plugin.RegistryPluginCacheKeyType), q.key(plugin.GlobalPluginCacheKeyType),
		q.failed(), q.silent(),
	} {
		if a, ok := s.kept[key]; ok && time.Now().Before(a.until) {
			return a, true
		}
	}
	return answer{}, false
}

// keep remembers an answer, and forgets those that are over. The caller holds the lock.
func (s *answers) keep(q question, a answer) {
	now, key := time.Now(), q.key(a.kind)
	switch {
	case errors.As(a.err, new(silentError)):
		key, a.until = q.silent(), now.Add(keepSilence)
	case a.err != nil:
		key, a.until = q.failed(), now.Add(keepFailure)
	case !now.Before(a.until):
		return
	}
	for k, old := range s.kept {
		if !now.Before(old.until) || len(s.kept) >= maxKept {
			delete(s.kept, k)
		}
	}
	s.kept[key] = a
}
