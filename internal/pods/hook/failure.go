package hook

import (
	"context"
	"errors"

	"berth/internal/lib/printable"
)

const (
	// maxOutput bounds what is shown of a command's output.
	maxOutput = 1 << 10
	// maxWhat and maxWhy bound the two halves of a failure's text.
	maxWhat = 256
	maxWhy  = 2 << 10
)

// failure is an error with words for an event, and its cause for errors.Is.
type failure struct {
	text  string
	cause error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

// newFailure puts the words together. Much of them was written by the pod, so
// they are made printable here, whatever way they came.
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
