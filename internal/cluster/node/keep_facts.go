package node

import (
	"context"

	"berth/internal/lib/run"
)

// keepFacts reads the facts of the machine and its runtime, and wakes the writer of the
// Node when one of them has changed.
func (r *Reporter) keepFacts(ctx context.Context) {
	for {
		wait := factsInterval
		if !r.readRuntime(ctx) {
			wait = factsRetryInterval
		}
		if !pause(ctx, wait, r.wakeFacts) {
			return
		}
		r.readMachine()
	}
}

// readMachine reads the facts of the machine. Facts that can't be read are logged once.
func (r *Reporter) readMachine() {
	machine, err := r.config.Machine()
	addresses, addressErr := r.config.Addresses()
	r.mu.Lock()
	first := r.facts.Machine.CPUs == 0
	facts := r.facts
	facts.Machine = machine
	if addressErr == nil {
		facts.Addresses = addresses
	}
	r.setFacts(facts)
	r.mu.Unlock()
	if first && err != nil {
		r.config.Log.Warn("some facts about this machine can't be read", "err", err)
	}
	if first && addressErr != nil {
		r.config.Log.Warn("the addresses of this machine are not known", "err", addressErr)
	}
}

// readRuntime reads the facts of the runtime, and returns whether any are known, from this read or
// an earlier one. A failing runtime is reported by the ReadinessMonitor, through SetRuntime.
func (r *Reporter) readRuntime(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	about, err := r.config.Runtime(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.config.Log.Debug("the runtime does not report its version", "err", err)
		return r.facts.Runtime.Name != ""
	}
	facts := r.facts
	facts.Runtime = about
	r.setFacts(facts)
	return true
}

// setFacts replaces the facts. The caller holds the lock.
func (r *Reporter) setFacts(facts Facts) {
	if !same(r.facts, facts) {
		r.facts = facts
		run.Notify(r.wakeNode)
	}
}
