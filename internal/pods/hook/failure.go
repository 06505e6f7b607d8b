package hook

import (
	"context"
	"errors"

	"berth/internal/lib/printable"
)

const (
	// maxOutput bounds the output of a command in an error, in bytes.
	maxOutput = 1 << 10
	// maxWhat and maxWhy bound the two halves of a failure's text.
	maxWhat = 256
	maxWhy  = 2 << 10
)

// failure is an error with a text for events. It wraps its cause.
type failure struct {
	text  string
	cause error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

// newFailure makes the text of a failure printable, since much of it comes from the pod.
func newFailure(what, why string, cause error) error {
	text := printable.Head(printable.OneLine(what), maxWhat)
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		text += ": not done in time"
	case errors.Is(cause, context.Canceled):
		text += ": interrupted"
	}
	return &failure{text: text + ": " + printable.Head(printable.OneLine(why), maxWhy), cause: cause}
}
