package node

import "context"

// keepFacts looks at the machine and its runtime, and wakes the writer of the
// Node when something is another than before.
func (r *Reporter) keepFacts(ctx context.Context) {
	for {
		wait := factsInterval
		if !r.readRuntime(ctx) {
			wait = factsSoon
		}
		if !pause(ctx, wait, r.wakeFacts) {
			return
		}
		r.readMachine()
	}
}

// readMachine takes in what the machine tells. What is missing is named once.
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
		r.config.Log.Warn("this machine does not tell everything about itself", "err", err)
	}
	if first && addressErr != nil {
		r.config.Log.Warn("the addresses of this machine are not known", "err", addressErr)
	}
}

// readRuntime takes in what the runtime tells, and tells whether it ever did. A
// runtime that fails is news for SetRuntime, which others call.
func (r *Reporter) readRuntime(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	about, err := r.config.Runtime(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.config.Log.Debug("the runtime does not tell about itself", "err", err)
		return r.facts.Runtime.Name != ""
	}
	facts := r.facts
	facts.Runtime = about
	r.setFacts(facts)
	return true
}

// setFacts is called with the lock held.
func (r *Reporter) setFacts(facts Facts) {
	if !same(r.facts, facts) {
		r.facts = facts
		nudge(r.wakeNode)
	}
}
