package imagegc

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/keyring"
)

// InUse returns the names and IDs of the images that must not be removed, each with the reason: pods that the
// runtime holds use them, desired pods will, or their archives are in the folder of images.
func InUse(held map[pod.UID]*pod.Observed, desired []*v1.Pod, archived []string) map[string]string {
	used := map[string]string{}
	for _, p := range held {
		reason := usedBy(p.Namespace, p.Name)
		for _, c := range p.Containers {
			used[c.Image], used[c.ImageRef] = reason, reason
		}
	}
	for _, p := range desired {
		reason := usedBy(p.Namespace, p.Name)
		for name := range pod.Images(p) {
			used[name] = reason
			if full, err := keyring.FullName(name); err == nil {
				used[full] = reason
			}
		}
	}
	for _, name := range archived {
		if used[name] == "" {
			used[name] = "its archive is in the folder of images"
		}
	}
	delete(used, "")
	return used
}

func usedBy(namespace, name string) string { return fmt.Sprintf("pod %s/%s uses it", namespace, name) }
