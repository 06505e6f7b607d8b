package cmdutil

import (
	"testing"
)

func TestStatusColor(t *testing.T) {
	for status, want := range map[string]string{
		"STATUS": "", "Completed": Green, "Init:1/2": Yellow, "Init:Error": Red, "ErrImagePull": Red, "Terminating": Yellow, "Evicted": Red,
	} {
		if got := statusColor(status); got != want {
			t.Errorf("%s: got %q", status, got)
		}
	}
}
