package node

import (
	"testing"
	"time"
)

func TestRenewalNeverGoesBackInTime(t *testing.T) {
	first := renewal(nil, "box", "u1", 40*time.Second, noon)
	if *first.Spec.HolderIdentity != "box" || *first.Spec.LeaseDurationSeconds != 40 || !first.Spec.RenewTime.Time.Equal(noon) ||
		first.Namespace != "kube-node-lease" || first.OwnerReferences[0].UID != "u1" || first.OwnerReferences[0].Kind != "Node" {
		t.Fatalf("first %+v", first)
	}
	for name, now := range map[string]time.Time{"set back": noon.Add(-time.Hour), "stands still": noon, "set forward": noon.Add(time.Hour)} {
		next := renewal(first, "box", "u2", 40*time.Second, now)
		if !next.Spec.RenewTime.After(noon) || next.OwnerReferences[0].UID != "u2" || len(next.OwnerReferences) != 1 {
			t.Errorf("%s: %+v", name, next)
		}
	}
	if !first.Spec.RenewTime.Time.Equal(noon) {
		t.Error("the lease that was held has changed")
	}
}
