//go:build real

package cluster

import (
	"fmt"
	"regexp"
	"testing"
)

func TestKubectlDescribeTellsWhatHappenedToAPod(t *testing.T) {
	t.Parallel()
	const space = "events"
	l, admin := sharedNamespace(t, space)
	pods := podsIn(t, admin, space)
	pods.create(workloadPod("web", "sleep"))
	pods.await("web", "ready", isReady)

	// Events may be late, but not by much.
	within(t, soon, func() error {
		text := kubectl(t, l, "-n", space, "describe", "pod", "web")
		for _, reason := range []string{"Pulled", "Created", "Started"} {
			if !regexp.MustCompile(`(?m)^ +Normal +` + reason + ` +\S+ +kubelet +\S`).MatchString(text) {
				return fmt.Errorf("there is no event %s of the kubelet's:\n%s", reason, text)
			}
		}
		return nil
	})
	pods.remove("web")
}
