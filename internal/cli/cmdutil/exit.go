package cmdutil

import (
	"errors"
	"fmt"
	"io"

	"berth/internal/cli/printers"
)

// ExitError ends a command with an exit code other than 1.
type ExitError struct {
	Code int
	Err  error // nil: no message is printed
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// printError prints the error of a command, and returns its exit code.
func printError(stderr io.Writer, err error) int {
	code := 1
	var exit *ExitError
	if errors.As(err, &exit) {
		code = exit.Code
		if exit.Err == nil {
			return code
		}
	}
	_, _ = fmt.Fprintln(stderr, "error:", printers.OneLine(err.Error()))
	return code
}

// Interrupted is the exit code after ctrl-c.
const Interrupted = 130
