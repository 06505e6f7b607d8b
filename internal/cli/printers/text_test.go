package printers

import (
	"testing"

	"berth/internal/lib/pod"
)

func TestRefusalText(t *testing.T) {
	full := pod.Refusal{Origin: "/m/a.yaml", Line: 7, Pod: "x/web", Message: "no image", Kept: true}
	cases := []struct {
		name   string
		change func(*pod.Refusal)
		want   string
	}{
		{"in full", func(*pod.Refusal) {}, "/m/a.yaml:7: no image (pod x/web; the last good version keeps running)"},
		{"line unknown", func(r *pod.Refusal) { r.Line = 0 }, "/m/a.yaml: no image (pod x/web; the last good version keeps running)"},
		{"pod unknown", func(r *pod.Refusal) { r.Pod = "" }, "/m/a.yaml:7: no image (the last good version keeps running)"},
		{"never ran", func(r *pod.Refusal) { r.Kept = false }, "/m/a.yaml:7: no image (pod x/web)"},
		{"no pod", func(r *pod.Refusal) { r.Pod, r.Object = "", "Secret x/key" }, "/m/a.yaml:7: no image (Secret x/key; the last good version stays in force)"},
		{"nothing known", func(r *pod.Refusal) { r.Pod, r.Kept = "", false }, "/m/a.yaml:7: no image"},
		{"several lines", func(r *pod.Refusal) { r.Message = "no image\n  and no name\n" }, "/m/a.yaml:7: no image and no name (pod x/web; the last good version keeps running)"},
	}
	for _, c := range cases {
		r := full
		c.change(&r)
		if got := Refusal(r); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
