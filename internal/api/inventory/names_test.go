package inventory

import (
	"slices"
	"strings"
	"testing"

	"berth/internal/api"
)

func TestOtherNames(t *testing.T) {
	images := []api.Image{
		{ID: "sha256:aaaaaaaaaaaaaaaa", Tags: []string{"localhost/a:1", "localhost/a:latest", "localhost/b:1"}, Digests: []string{"localhost/a@sha256:" + strings.Repeat("1", 64)}},
		{ID: "sha256:bbbbbbbbbbbbbbbb", Tags: []string{"localhost/c:1"}},
	}
	for name, want := range map[string][]string{
		"localhost/a:1": {"localhost/a:latest", "localhost/b:1"},
		"localhost/a":   {"localhost/a:1", "localhost/b:1"},
		"localhost/c:1": nil,
		"aaaaaaaaaaaa":  {"localhost/a:1", "localhost/a:latest", "localhost/b:1"},
		"localhost/a@sha256:" + strings.Repeat("1", 64): {"localhost/a:1", "localhost/a:latest", "localhost/b:1"},
		"sha256:bbbbbbbbbbbbbbbb":                       {"localhost/c:1"},
		"localhost/gone:1":                              nil,
	} {
		if got := OtherNames(images, name); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
