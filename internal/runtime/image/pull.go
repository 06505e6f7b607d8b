package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/keyring"
)

// pull is an image that is to be fetched, and what pods show for it by themselves.
type pull struct {
	image, repository string
	credentials
	pod *v1.Pod // one of those who can show them; nil: nobody in particular
}

func (p pull) key() key { return key{p.image, p.hash()} }

// pull starts to fetch an image. The caller holds the lock.
func (m *Manager) pull(k key, e *entry, what pull, priority int32) {
	ctx, cancel := context.WithCancel(m.group.Context())
	e.cancel, e.turn = cancel, newTurn(priority, m.sizeOf(what.image))
	turn := e.turn
	e.askedAt = time.Now()
	m.group.Go("pull "+what.image, func(groupCtx context.Context) {
		defer cancel()
		err := m.fetch(ctx, what, turn, func() { m.answered(groupCtx, e) })
		for _, uid := range m.finish(ctx, k, e, err) {
			m.Enqueue(groupCtx, uid)
		}
	})
}

func (m *Manager) sizeOf(image string) int64 {
	if m.Size == nil {
		return 0
	}
	return m.Size(image)
}

// Pull fetches an image for nobody in particular, with what the machine can show.
// It waits for its turn, ahead of all pods.
func (m *Manager) Pull(ctx context.Context, image string) error {
	repository, err := keyring.Repository(image)
	if err != nil {
		return fmt.Errorf("%q can't be the name of an image: %w", image, err)
	}
	if err := m.fetch(ctx, pull{image: image, repository: repository}, newTurn(byHand, 0), func() {}); err != nil {
		return errors.New(m.explain(err))
	}
	m.Recheck(ctx)
	return nil
}

// credentialsTimeout is how long credentials may take before pods say that they wait for them.
const credentialsTimeout = 5 * time.Second

// answered takes note that credentials were found, or not. Pods that say that they wait
// for them are told.
func (m *Manager) answered(ctx context.Context, e *entry) {
	m.mu.Lock()
	var late []pod.UID
	if time.Since(e.askedAt) >= credentialsTimeout {
		late = e.pods(nil)
	}
	e.askedAt = time.Time{}
	m.mu.Unlock()
	for _, uid := range late {
		m.Enqueue(ctx, uid)
	}
}

// byHand is the priority of somebody who sits and waits.
const byHand = 1<<31 - 1

// freshFor is how long what the machine can show is good for. It may have to be asked
// for, and come with an end.
const freshFor = time.Minute

// fetch finds what can be shown, waits for its turn, and tries all of it. Nobody else
// waits for a turn because credentials are long in coming.
func (m *Manager) fetch(ctx context.Context, what pull, t *turn, found func()) error {
	show, hint := m.findCredentials(ctx, what)
	found()
	looked := time.Now()
	release, err := m.queue.acquire(ctx, t)
	if err != nil {
		return err
	}
	defer release()
	if err := m.rate.Wait(ctx); err != nil {
		return err
	}
	if time.Since(looked) > freshFor {
		show, hint = m.findCredentials(ctx, what)
	}
	began := time.Now()
	defer m.watch(ctx, what)()
	err = m.tryAll(ctx, what, show, hint)
	if m.Pulled != nil {
		m.Pulled(ctx, what.image, time.Since(began), err)
	}
	return err
}

// findCredentials finds what can be shown for an image: what the pod has, what the machine has,
// or nothing if there is nothing. hint says why there may be more.
func (m *Manager) findCredentials(ctx context.Context, what pull) (show []keyring.Credential, hint error) {
	show = slices.Clone(what.List)
	if m.Keyring != nil {
		var more []keyring.Credential
		more, hint = m.Keyring.Lookup(ctx, what.repository, what.pod)
		for _, c := range more {
			// Others may wait for this pull who can't show that account: it was not known
			// yet when they came together. Its pod asks again, and is told apart then.
			if c.Account == nil || isAccount(accountOf(c.Account), what.Account) {
				show = append(show, c)
			}
		}
	}
	if len(show) == 0 {
		show = []keyring.Credential{{}}
	}
	return show, hint
}

// tryAll shows one credential after the other.
func (m *Manager) tryAll(ctx context.Context, what pull, show []keyring.Credential, hint error) (err error) {
	failed := &pullError{}
	if hint != nil {
		failed.hints = append(failed.hints, hint.Error())
	}
	var ref string
	var by keyring.Credential
	if m.Records != nil {
		if err := m.begin(ctx, what.image); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Records.End(what.image, what.repository, ref, by)) }()
	}
	tried := map[string]bool{}
	for _, c := range show {
		if tried[c.Hash()] {
			continue
		}
		tried[c.Hash()] = true
		got, err := m.Runtime.PullImage(ctx, what.image, c)
		if err == nil {
			ref, by = got, c
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if m.GaveUp != nil && m.GaveUp(err) {
			failed.all = append(failed.all, silentError{m.PullTimeout})
			break // the next one would wait as long
		}
		failed.all = append(failed.all, err)
	}
	return failed
}

// begin takes note of a pull, and of what was there before it.
func (m *Manager) begin(ctx context.Context, image string) error {
	before, err := m.Runtime.ImageRef(ctx, image)
	if err != nil {
		return err
	}
	return m.Records.Begin(image, before)
}

// pullError is why none of the credentials led to an image.
type pullError struct {
	all   []error
	hints []string // on credentials that could not be tried
}

func (e *pullError) Error() string {
	return strings.Join(append(messages(e.all, error.Error), e.hints...), "; ")
}

// explain is an error in the words of a status.
func (m *Manager) explain(err error) string {
	if e := (*pullError)(nil); errors.As(err, &e) {
		return strings.Join(append(messages(e.all, m.Explain), e.hints...), "; ")
	}
	return m.Explain(err)
}

// messages are those of errors, each once.
func messages(all []error, text func(error) string) []string {
	var out []string
	seen := map[string]bool{}
	for _, err := range all {
		if t := text(err); !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out
}

// finish notes how a pull ended and returns who waits for it.
func (m *Manager) finish(ctx context.Context, k key, e *entry, err error) []pod.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return nil // nobody waits any more
	}
	e.cancel, e.turn = nil, nil
	failedBefore := e.err != nil
	e.err = err
	switch {
	case err != nil:
		e.failedAt = time.Now()
		e.backoff = min(max(firstBackoff, 2*e.backoff), maxBackoff)
		if !failedBefore { // once; the status of the pods tells the rest
			m.Log.Warn("can't pull image; trying again", "image", k.image, "err", err)
		}
	default:
		e.backoff = 0
		for who := range e.waiters {
			e.waiters[who] = served
		}
		if failedBefore {
			m.Log.Info("image pulled after all", "image", k.image)
		}
	}
	return e.pods(nil)
}
