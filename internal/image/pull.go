package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/keyring"
	"berth/internal/pod"
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
	m.group.Go("pull "+what.image, func(groupCtx context.Context) {
		defer cancel()
		err := m.fetch(ctx, what, turn)
		for _, uid := range m.finish(ctx, k, e, err) {
			m.Wake(groupCtx, uid)
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
	if err := m.fetch(ctx, pull{image: image, repository: repository}, newTurn(byHand, 0)); err != nil {
		return errors.New(m.explain(err))
	}
	m.Recheck(ctx)
	return nil
}

// byHand is the priority of somebody who sits and waits.
const byHand = 1<<31 - 1

// fetch waits for its turn, and tries all credentials.
func (m *Manager) fetch(ctx context.Context, what pull, t *turn) error {
	release, err := m.queue.take(ctx, t)
	if err != nil {
		return err
	}
	defer release()
	if err := m.rate.Wait(ctx); err != nil {
		return err
	}
	began := time.Now()
	defer m.watch(ctx, what)()
	err = m.tryAll(ctx, what)
	if m.Pulled != nil {
		m.Pulled(ctx, what.image, time.Since(began), err)
	}
	return err
}

// tryAll shows one credential after the other: those of the pod, those of the
// machine, or none if there are none.
func (m *Manager) tryAll(ctx context.Context, what pull) (err error) {
	failed := &pullError{}
	all := slices.Clone(what.List)
	if m.Keyring != nil {
		more, err := m.Keyring.Lookup(ctx, what.repository, what.pod)
		for _, c := range more {
			// Others may wait for this pull who can't show that account: it was not known
			// yet when they came together. Its pod asks again, and is told apart then.
			if c.Account == nil || isOf(accountOf(c.Account), what.Account) {
				all = append(all, c)
			}
		}
		if err != nil {
			failed.hints = append(failed.hints, err.Error())
		}
	}
	if len(all) == 0 {
		all = []keyring.Credential{{}}
	}
	var ref string
	var by keyring.Credential
	if m.Records != nil {
		if err := m.Records.Begin(what.image); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Records.End(what.image, what.repository, ref, by)) }()
	}
	tried := map[string]bool{}
	for _, c := range all {
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
			failed.all = append(failed.all, silentError{m.Patience})
			break // the next one would wait as long
		}
		failed.all = append(failed.all, err)
	}
	return failed
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
