package execute

import (
	"fmt"
	"regexp"
	"time"
)

// slowCallTimeout is more than a call to the runtime usually takes. After that, the pod gives its
// start slot back, and its status says which call it waits for.
const slowCallTimeout = 15 * time.Second

// callRuntime makes a call to the runtime and returns its error, however long it takes. After
// slowCallTimeout it hands a message for the status to wait.
func (e *Executor) callRuntime(t *task, what string, wait func(message string), do func() error) error {
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- do() }() // it ends before callRuntime returns
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

// runtimeID matches the ids of sandboxes and containers in error messages.
var runtimeID = regexp.MustCompile(`[0-9a-f]{64}`)

// explain returns the text of a runtime error for a status or event, without ids: the same failure
// of the next attempt has the same text, so that events can be counted.
func (e *Executor) explain(err error) string {
	return runtimeID.ReplaceAllString(e.RuntimeInfo.Explain(err), "...")
}
