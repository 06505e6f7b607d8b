package execute

import (
	"fmt"
	"regexp"
	"time"
)

// slowCallTimeout is how long a call to the runtime usually takes at most. After that, a pod
// does not keep others from their start any more, and it is shown what it waits for.
const slowCallTimeout = 15 * time.Second

// callRuntime makes a call to the runtime. wait is told what is waited for if it takes long; the
// call itself goes on.
func (e *Executor) callRuntime(t *task, what string, wait func(message string), do func() error) error {
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- do() }() // it is waited for, always
	slow := time.NewTimer(slowCallTimeout)
	defer slow.Stop()
	select {
	case err := <-done:
		return err
	case <-slow.C:
	}
	t.releaseSlot()
	wait(fmt.Sprintf("%s: no answer from the runtime since %s", what, began.UTC().Format(time.RFC3339)))
	e.publishSync(t)
	return <-done
}

// runtimeID names what the runtime made in one attempt.
var runtimeID = regexp.MustCompile(`[0-9a-f]{64}`)

// explain are what users read of an error of the runtime. Those of the next attempt are
// the same if the reason is, so that they can be counted.
func (e *Executor) explain(err error) string {
	return runtimeID.ReplaceAllString(e.RuntimeInfo.Explain(err), "...")
}
