package volume

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ErrMissing marks errors about something that a pod requires and that does not exist yet: an object,
// a key in it, a bound claim.
var ErrMissing = errors.New("a required object is missing")

// Error is the failure to set up one volume.
type Error struct {
	Volume string
	// Usable says that the volume is set up with an earlier content, so containers may use it and
	// start.
	Usable bool
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("volume %q: %v", e.Volume, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Errors are the failures to set up volumes of one pod.
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

// Unusable returns the failures of volumes that a container uses and that are not usable.
func (e Errors) Unusable(c *v1.Container) Errors {
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

// missing is an error for which errors.Is(err, ErrMissing) holds, with the usual text of Kubernetes.
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

// fetchError wraps the failure to get an object.
func fetchError(kind, name string, err error) error {
	if apierrors.IsNotFound(err) {
		return &missing{text: fmt.Sprintf("%s %q not found", kind, name), cause: err}
	}
	return fmt.Errorf("get %s %q: %w", kind, name, err)
}
