package nearest

import "testing"

func TestTheNearestNameIsFound(t *testing.T) {
	known := []string{"max-pods", "max-open-files", "pod-max-pids", "port", "v"}
	for name, want := range map[string]string{
		"max-pod": "max-pods", "maxpods": "max-pods", "MAX-PODS": "max-pods", "mxa-pods": "max-pods", "prot": "port", "pod-max-pid": "pod-max-pids",
		"something-else-entirely": "", "": "", "w": "", "ab": "",
	} {
		if got := To(name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestHints(t *testing.T) {
	if got := Hint("prot", "--", []string{"port"}); got != "; did you mean --port?" {
		t.Errorf("got %q", got)
	}
	if got := Hint("xyzzy-xyzzy", "--", []string{"port"}); got != "" {
		t.Errorf("got %q", got)
	}
}
