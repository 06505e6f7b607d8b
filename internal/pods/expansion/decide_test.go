package expansion

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func storage(size string) v1.ResourceList {
	if size == "" {
		return nil
	}
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
}

// claimOf returns a claim that asks for 2Gi, has a size, and is being resized by a resizer.
func claimOf(size, allocated string, status v1.ClaimResourceStatus) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{}
	c.Name, c.Namespace, c.ResourceVersion = "data", "shop", "1"
	c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	c.Spec.Resources.Requests = storage("2Gi")
	c.Status.Phase, c.Status.Capacity, c.Status.AllocatedResources = v1.ClaimBound, storage(size), storage(allocated)
	if status != "" {
		c.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: status}
	}
	return c
}

// shared makes the claim one for several nodes.
func shared(c *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	return c
}

func pvOf(size string) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{}
	pv.Name = "disk"
	pv.Spec.Capacity = storage(size)
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: "disks.example.com", VolumeHandle: "d-1"}
	return pv
}

func TestWhatANodeDoesAboutAVolumeThatHasGrown(t *testing.T) {
	everywhere := shared(claimOf("2Gi", "2Gi", ""))
	everywhere.Annotations = map[string]string{notRequired: ""}
	for name, test := range map[string]struct {
		claim *v1.PersistentVolumeClaim
		have  string
		want  decision // of 2Gi
	}{
		"the resizer left the rest to the node":       {claimOf("1Gi", "2Gi", v1.PersistentVolumeClaimNodeResizePending), "1Gi", decision{verdict: expand, report: true, recoverable: true}},
		"the node had begun":                          {claimOf("1Gi", "2Gi", v1.PersistentVolumeClaimNodeResizeInProgress), "1Gi", decision{verdict: expand, report: true, recoverable: true}},
		"the size is not possible":                    {claimOf("1Gi", "2Gi", v1.PersistentVolumeClaimNodeResizeInfeasible), "1Gi", decision{}},
		"the resizer is at work":                      {claimOf("1Gi", "2Gi", v1.PersistentVolumeClaimControllerResizeInProgress), "1Gi", decision{}},
		"the resizer has not said anything yet":       {claimOf("1Gi", "2Gi", ""), "1Gi", decision{}},
		"the resizer did everything":                  {claimOf("2Gi", "2Gi", ""), "1Gi", decision{verdict: accept}},
		"another node expanded a shared volume":       {shared(claimOf("2Gi", "2Gi", "")), "1Gi", decision{verdict: expand, recoverable: true}},
		"so did this node":                            {shared(claimOf("2Gi", "2Gi", "")), "2Gi", decision{verdict: accept}},
		"one node is enough for this shared volume":   {everywhere, "1Gi", decision{verdict: accept}},
		"an old resizer":                              {claimOf("1Gi", "", ""), "1Gi", decision{verdict: expand, report: true}},
		"another node reported it to an old resizer":  {claimOf("2Gi", "", ""), "1Gi", decision{verdict: expand}},
		"the claim has no status but its volume does": {claimOf("", "", ""), "0", decision{verdict: expand, report: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(test.claim, pvOf("2Gi"), resource.MustParse(test.have))
			if want := resource.MustParse("2Gi"); got.verdict != wait && got.size.Cmp(want) != 0 {
				t.Errorf("the size is %s", got.size.String())
			}
			got.size = resource.Quantity{}
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestAResizerThatRecoversChoosesTheSize(t *testing.T) {
	// given a volume of 3Gi that could not be expanded on its node, and a claim that wants less by now
	got := decide(claimOf("1Gi", "2Gi", v1.PersistentVolumeClaimNodeResizePending), pvOf("3Gi"), resource.MustParse("1Gi"))
	// then the node expands it to what the resizer allocated
	if want := resource.MustParse("2Gi"); got.verdict != expand || got.size.Cmp(want) != 0 {
		t.Errorf("got %+v", got)
	}
	// and not again, though the volume is larger
	if got := decide(shared(claimOf("2Gi", "2Gi", "")), pvOf("3Gi"), resource.MustParse("2Gi")); got.verdict != accept {
		t.Errorf("got %+v", got)
	}
}

func TestWhetherAVolumeHasGrown(t *testing.T) {
	pending := claimOf("3Gi", "", "")
	pending.Status.Conditions = []v1.PersistentVolumeClaimCondition{{Type: v1.PersistentVolumeClaimFileSystemResizePending, Status: v1.ConditionTrue}}
	for name, test := range map[string]struct {
		claim                   *v1.PersistentVolumeClaim
		pv, have                string
		atMount, online, worthy bool
	}{
		"as it was":                {claimOf("2Gi", "", ""), "2Gi", "2Gi", false, false, false},
		"larger than asked for":    {claimOf("3Gi", "", ""), "3Gi", "3Gi", false, false, false},
		"more was asked for":       {claimOf("1Gi", "", ""), "1Gi", "1Gi", false, false, true},
		"the volume has grown":     {claimOf("1Gi", "", ""), "2Gi", "1Gi", true, true, true},
		"another node expanded it": {claimOf("2Gi", "", ""), "2Gi", "1Gi", false, true, true},
		"the size is not known":    {claimOf("1Gi", "", ""), "2Gi", "0", true, false, true},
		"a file system is to grow": {pending, "4Gi", "3Gi", true, true, true},
		"a resizer is at work":     {claimOf("2Gi", "2Gi", v1.PersistentVolumeClaimNodeResizePending), "2Gi", "2Gi", false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			have, pv := resource.MustParse(test.have), pvOf(test.pv)
			if got := grownAtMount(test.claim, pv); got != test.atMount {
				t.Errorf("at mount: %v", got)
			}
			if got := grownOnline(pv, have); got != test.online {
				t.Errorf("online: %v", got)
			}
			if got := mayGrow(test.claim, have); got != test.worthy {
				t.Errorf("worth a look at the volume: %v", got)
			}
		})
	}
}
