// Package inventory says what there is on a node beside its pods, and which pods
// it is there for: images and volumes. It decides what is shown; it is pure, and
// whatever it has to know of the disk and the runtime is handed to it.
package inventory

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
	"berth/internal/lib/pod"
)

// Images returns images with the pods that use each, by their names.
func Images(images []api.Image, pods []*v1.Pod) []api.Image {
	users := map[string][]string{} // by any name of an image
	for _, p := range pods {
		for name := range pod.Images(p) {
			users[name] = append(users[name], pod.Ref(p))
		}
	}
	out := slices.Clone(images)
	for i := range out {
		var by []string
		for _, name := range slices.Concat([]string{out[i].ID}, out[i].Tags, out[i].Digests) {
			by = append(by, users[name]...)
		}
		slices.Sort(by)
		out[i].Pods = slices.Compact(by)
	}
	slices.SortStableFunc(out, func(a, b api.Image) int {
		return cmp.Or(strings.Compare(Name(a), Name(b)), strings.Compare(a.ID, b.ID))
	})
	return out
}

// Name returns the name of an image: its first tag, or else its first digest.
func Name(i api.Image) string {
	for _, names := range [][]string{i.Tags, i.Digests} {
		if len(names) > 0 {
			return names[0]
		}
	}
	return ""
}
