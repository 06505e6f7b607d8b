package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/backoff"
	"berth/internal/lib/pod"
	"berth/internal/runtime/keyring"
)

// pull is an image that is to be pulled, with the credentials of the pods that wait for it.
type pull struct {
	image, repository string
	credentials
	pod *v1.Pod // one of the pods with these credentials; nil: the pull is for no pod
}

func (p pull) key() key { return key{p.image, p.hash()} }

// pull starts the goroutine that pulls an image. The caller holds the lock.
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

// Pull pulls an image for no pod, with the credentials of the machine. It waits for its
// turn, ahead of all pods.
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

// credentialsTimeout is how long the lookup of credentials may take before the status of the
// waiting pods says so.
const credentialsTimeout = 5 * time.Second

// answered records the end of the lookup of credentials. Pods whose status says that they
// wait for it are enqueued.
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

// byHand is the priority of a pull that a user waits for.
const byHand = 1<<31 - 1

// freshFor is how long credentials of the machine are used before they are looked up again:
// those of plugins expire.
const freshFor = time.Minute

// fetch looks up credentials, waits for its turn, and tries each of them. The lookup comes
// first, so that a slow one does not take up a turn.
func (m *Manager) fetch(ctx context.Context, what pull, t *turn, found func()) error {
	show, hint := m.findCredentials(ctx, what)
	found()
	foundAt := time.Now()
	release, err := m.queue.acquire(ctx, t)
	if err != nil {
		return err
	}
	defer release()
	if err := m.rate.Wait(ctx); err != nil {
		return err
	}
	if time.Since(foundAt) > freshFor {
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

// findCredentials returns the credentials for an image: those of the pod, then those of the
// machine, or an anonymous one if there are none. hint says why some may be missing.
func (m *Manager) findCredentials(ctx context.Context, what pull) (show []keyring.Credential, hint error) {
	show = slices.Clone(what.List)
	if m.Keyring != nil {
		var more []keyring.Credential
		more, hint = m.Keyring.Lookup(ctx, what.repository, what.pod)
		for _, c := range more {
			// Pods without that account may wait for this pull, too, if the account was not
			// known yet when they asked. Its pod asks again, and gets a pull of its own then.
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

// tryAll tries to pull with one credential after the other.
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
			break // the next credential would wait as long
		}
		failed.all = append(failed.all, err)
	}
	return failed
}

// begin records that a pull begins, and which image has its name before it.
func (m *Manager) begin(ctx context.Context, image string) error {
	before, err := m.Runtime.ImageRef(ctx, image)
	if err != nil {
		return err
	}
	return m.Records.Begin(image, before)
}

// pullError holds the errors of all credentials that were tried.
type pullError struct {
	all   []error
	hints []string // on credentials that could not be tried
}

func (e *pullError) Error() string {
	return strings.Join(append(messages(e.all, error.Error), e.hints...), "; ")
}

// explain turns an error into the message of a status.
func (m *Manager) explain(err error) string {
	if e := (*pullError)(nil); errors.As(err, &e) {
		return strings.Join(append(messages(e.all, m.Explain), e.hints...), "; ")
	}
	return m.Explain(err)
}

// messages returns the messages of errors, each once.
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

// finish records the result of a pull and returns the pods that wait for it.
func (m *Manager) finish(ctx context.Context, k key, e *entry, err error) []pod.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return nil // no pod waits any more
	}
	e.cancel, e.turn = nil, nil
	failedBefore := e.err != nil
	e.err = err
	switch {
	case err != nil:
		e.failedAt = time.Now()
		e.backoff = backoff.Exponential{First: firstBackoff, Max: maxBackoff}.Next(e.backoff)
		if !failedBefore { // once; the status of the pods has the rest
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
