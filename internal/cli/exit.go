package cli

import (
	"errors"
	"fmt"
	"io"
)

// exitError ends a command with an exit code other than 1.
type exitError struct {
	code int
	err  error // nil: all has been said already
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// report tells why a command failed, and returns its exit code.
func report(stderr io.Writer, err error) int {
	code := 1
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
		if exit.err == nil {
			return code
		}
	}
	_, _ = fmt.Fprintln(stderr, "error:", oneLine(err.Error()))
	return code
}

// interrupted is the exit code of what ctrl-c ended.
const interrupted = 130
