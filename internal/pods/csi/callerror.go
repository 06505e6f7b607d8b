package csi

import (
	"fmt"

	"google.golang.org/grpc/codes"
)

// CallError is the error of a call to a driver.
type CallError struct {
	Driver, Method string
	Code           codes.Code
	Message        string
}

func (e *CallError) Error() string {
	return fmt.Sprintf("CSI driver %q: %s: %s (%s)", e.Driver, e.Method, e.Message, e.Code)
}

// Final reports whether the driver has ended its work. With any other error it may be at work still.
func (e *CallError) Final() bool {
	switch e.Code {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false
	default:
		return true
	}
}

// Infeasible reports whether the same call can't succeed later: only another size could.
func (e *CallError) Infeasible() bool {
	return e.Code == codes.InvalidArgument || e.Code == codes.OutOfRange || e.Code == codes.NotFound
}

// InUse reports whether the driver can't do it while the volume is in use.
func (e *CallError) InUse() bool { return e.Code == codes.FailedPrecondition }
