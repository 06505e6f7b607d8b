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
	// maxAsked is how many runs of a plugin there are at a time.
	maxAsked = 4
	// maxKept is how many answers are cached. Most are cached by registry.
	maxKept = 1000
	// keepFailure is how long a failure is cached, so that not every pull runs into it.
	// keepSilence is the same for a plugin that did not answer, which costs the most.
	keepFailure = 5 * time.Second
	keepSilence = 30 * time.Second
)

// question is a request to a plugin: the repository, and the key of the identity that asks.
type question struct{ repository, who string }

// key returns the cache key of an answer, by its cache key type.
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

// failed and silent are the cache keys of failures: of a failure of this question, and of a
// plugin that did not answer for any question about the registry.
func (q question) failed() string { return "failed " + q.key(plugin.ImagePluginCacheKeyType) }
func (q question) silent() string { return "silent " + q.host() }

// answer is the answer of a plugin, and until when it is cached.
type answer struct {
	ring  keyring.Ring
	err   error
	kind  plugin.PluginCacheKeyType
	until time.Time
}

// answers is the cache of a plugin's answers. The same question is asked once for all callers
// that wait for its answer, and up to maxAsked different ones at a time.
type answers struct {
	turns chan struct{} // holds a value for each question that is being asked

	mu    sync.Mutex
	kept  map[string]answer
	asked map[question]*asking
}

// asking is a question that one caller asks for all that wait.
type asking struct {
	done chan struct{}
	// answer is set when done is closed. It is nil if the context of the asking caller ended.
	answer *answer
}

func newAnswers() *answers {
	return &answers{turns: make(chan struct{}, maxAsked), kept: map[string]answer{}, asked: map[question]*asking{}}
}

// get returns the cached answer to a question, or calls ask.
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

// begin returns the cached answer, or else the question that is being asked, and whether the
// caller has to ask it.
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

// ask waits for a turn, and asks unless an answer that holds for this question was cached
// meanwhile. It fails if ctx ends, which says nothing about the plugin.
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

// end gives the answer to the callers that wait.
func (s *answers) end(q question, begun *asking, a *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun.answer = a
	delete(s.asked, q)
	close(begun.done)
}

// find returns a cached answer that has not expired. The caller holds the lock.
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
