//go:build real

package api

import (
	"fmt"
	"regexp"
	"testing"

	"berth/test/cluster/kit"
)

func TestKubectlDescribeShowsTheEventsOfAPod(t *testing.T) {
	t.Parallel()
	const space = "events"
	l, admin := kit.SharedNamespace(t, space)
	pods := kit.PodsIn(t, admin, space)
	pods.MustCreate(kit.WorkloadPod("web", "sleep"))
	pods.Await("web", "ready", kit.IsReady)

	// Events may be late, but not by much.
	kit.Within(t, kit.ShortTimeout, func() error {
		text := kit.Kubectl(t, l, "-n", space, "describe", "pod", "web")
		for _, reason := range []string{"Pulled", "Created", "Started"} {
			if !regexp.MustCompile(`(?m)^ +Normal +` + reason + ` +\S+ +kubelet +\S`).MatchString(text) {
				return fmt.Errorf("there is no event %s of the kubelet's:\n%s", reason, text)
			}
		}
		return nil
	})
	pods.MustRemove("web")
}
