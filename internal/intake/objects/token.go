package objects

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/backoff"
	"berth/internal/lib/logonce"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

const (
	defaultTokenLife = 3600 // seconds, as the API server's
	// maxTokenAge is when a token is refreshed at the latest, however long it lives.
	maxTokenAge = 24 * time.Hour
	// maxTokenJitter is by how much a refresh may come earlier, at random, so that tokens of
	// pods that started together are not refreshed together.
	maxTokenJitter = 10 * time.Second
)

// refreshPause is the pause after a token refresh that failed. The old token is returned while it
// is good.
var refreshPause = backoff.Exponential{First: time.Second, Max: time.Minute}

// tokenKey identifies a token among those of a pod.
type tokenKey struct {
	account  string
	audience string // empty: that of the API server
	seconds  int64
}

// token is a token of one pod. turn is its lock: the goroutine that has sent a value to it
// may read and write the other fields.
type token struct {
	turn     chan struct{} // capacity 1
	value    string        // empty: there is none yet
	expires  time.Time
	refresh  time.Time // when a new one is to be asked for
	failures int       // to refresh it, in a row
	streak   logonce.Streak
}

// forbiddenPause is the pause after a token request that was forbidden. The caches of an API server
// lag behind for a moment: such a request is repeated for about a second in all.
var forbiddenPause = backoff.Exponential{First: 50 * time.Millisecond, Max: 400 * time.Millisecond}

// maxForbidden is how often a token request is made that is forbidden each time.
const maxForbidden = 5

// Token returns a token of the pod's service account that is good for one audience. It
// is bound to the pod: it is invalid once the pod is gone from the API server.
//
// The token stays the same until refreshAt. Callers that store it ask again then.
func (a *API) Token(ctx context.Context, p *v1.Pod, audience string, seconds int64) (value string, expires, refreshAt time.Time, err error) {
	if seconds <= 0 {
		seconds = defaultTokenLife
	}
	t := a.tokenOf(p.UID, tokenKey{ServiceAccountOf(p), audience, seconds})
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return "", time.Time{}, time.Time{}, fmt.Errorf("wait for a token for pod %s: %w", pod.Ref(p), context.Cause(ctx))
	}
	if !isPast(t.refresh) {
		return t.value, t.expires, t.refresh, nil
	}
	asked := time.Now()
	answer, err := a.requestToken(ctx, p, audience, seconds)
	var life time.Duration
	if err == nil {
		life, err = lifeOf(answer, asked)
	}
	if err != nil {
		if t.value == "" || isPast(t.expires) {
			return "", time.Time{}, time.Time{}, fmt.Errorf("get a token of service account %s/%s for pod %s: %w", p.Namespace, ServiceAccountOf(p), p.Name, err)
		}
		t.failures++
		if t.streak.Failed(asked) {
			a.Log.Warn("a token could not be refreshed; the old one is used as long as it is good",
				"pod", pod.Ref(p), "until", t.expires, "err", err)
		}
		t.refresh = asked.Add(refreshPause.Jittered(t.failures))
		return t.value, t.expires, t.refresh, nil
	}
	if t.streak.Recovered() {
		a.Log.Info("a token was refreshed at last", "pod", pod.Ref(p))
	}
	t.value, t.failures = answer.Status.Token, 0
	t.expires, t.refresh = asked.Add(life), asked.Add(refreshAfter(life))
	return t.value, t.expires, t.refresh, nil
}

// tokenOf returns the token of a registered pod, or an empty one that is not kept.
func (a *API) tokenOf(uid pod.UID, key tokenKey) *token {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.pods[uid]
	if r != nil && r.tokens[key] != nil {
		return r.tokens[key]
	}
	t := &token{turn: make(chan struct{}, 1)}
	if r != nil {
		r.tokens[key] = t
	}
	return t
}

func (a *API) requestToken(ctx context.Context, p *v1.Pod, audience string, seconds int64) (*authenticationv1.TokenRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: p.Name, UID: p.UID},
	}}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	accounts := a.Client.CoreV1().ServiceAccounts(p.Namespace)
	for attempt := 1; ; attempt++ {
		answer, err := accounts.CreateToken(ctx, ServiceAccountOf(p), request, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) || attempt == maxForbidden {
			return answer, err
		}
		// A server that has just bound the pod to this node may not know it everywhere.
		if run.Sleep(ctx, forbiddenPause.After(attempt)) != nil {
			return nil, err
		}
	}
}

// lifeOf is how long a token is good from the moment it was asked for. The server says
// it in seconds, too, which does not depend on what its clock shows.
func lifeOf(answer *authenticationv1.TokenRequest, asked time.Time) (time.Duration, error) {
	if answer.Status.Token == "" {
		return 0, errors.New("the API server answered without a token")
	}
	life := answer.Status.ExpirationTimestamp.Sub(asked)
	if s := answer.Spec.ExpirationSeconds; s != nil && *s > 0 {
		life = time.Duration(*s) * time.Second
	}
	if life <= 0 {
		return 0, fmt.Errorf("it expired at %s, before it was asked for: do the clocks of this node and of the API server differ?", answer.Status.ExpirationTimestamp)
	}
	return life, nil
}

// refreshAfter returns the age at which a token of that lifetime is refreshed: four fifths
// of the lifetime, or a day.
func refreshAfter(life time.Duration) time.Duration {
	after := min(life/5*4, maxTokenAge)
	return after - rand.N(min(maxTokenJitter, after/20)+1)
}

// isPast reports whether a time has come, by the monotonic clock or by the wall clock: clocks
// are set, and machines sleep.
func isPast(t time.Time) bool {
	now := time.Now()
	return !now.Before(t) || !now.Round(0).Before(t)
}
