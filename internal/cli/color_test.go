package cli

import (
	"testing"
)

func TestStatusColor(t *testing.T) {
	for status, want := range map[string]string{
		"STATUS": "", "Completed": green, "Init:1/2": yellow, "Init:Error": red, "ErrImagePull": red, "Terminating": yellow, "Evicted": red,
	} {
		if got := statusColor(status); got != want {
			t.Errorf("%s: got %q", status, got)
		}
	}
}
