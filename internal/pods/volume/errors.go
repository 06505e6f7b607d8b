package volume

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ErrMissing is what errors.Is finds in an error about something that a pod
// requires and that is not there (yet): an object, a key in it, a bound claim.
var ErrMissing = errors.New("a required object is missing")

// Error is a volume that could not be brought to what it should be.
type Error struct {
	Volume string
	// Usable says that the volume is there with an earlier content, so that what runs
	// can go on and may be started again.
	Usable bool
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("volume %q: %v", e.Volume, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Errors are all volumes of a pod that could not be brought to what they should be.
type Errors []*Error

func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, one := range e {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "; ")
}

func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i, one := range e {
		out[i] = one
	}
	return out
}

// Lacking are those that a container uses and that are not there at all, not even with
// an earlier content.
func (e Errors) Lacking(c *v1.Container) Errors {
	used := map[string]bool{}
	addUsed(used, c.VolumeMounts, c.VolumeDevices)
	var out Errors
	for _, one := range e {
		if used[one.Volume] && !one.Usable {
			out = append(out, one)
		}
	}
	return out
}

// missing is an error about something that is not there. It says so in the words
// that users know, and keeps the cause, if there is one.
type missing struct {
	text  string
	cause error
}

func (e *missing) Error() string        { return e.text }
func (e *missing) Unwrap() error        { return e.cause }
func (e *missing) Is(target error) bool { return target == ErrMissing }

func missingf(format string, args ...any) error {
	return &missing{text: fmt.Sprintf(format, args...)}
}

// fetchError puts the failure to get an object into words.
func fetchError(kind, name string, err error) error {
	if apierrors.IsNotFound(err) {
		return &missing{text: fmt.Sprintf("%s %q not found", kind, name), cause: err}
	}
	return fmt.Errorf("get %s %q: %w", kind, name, err)
}
