package imagegc

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var start = time.Unix(1_000_000, 0)

func ago(d time.Duration) time.Time { return start.Add(-d) }

func TestPlan(t *testing.T) {
	policy := Policy{High: 85, Low: 80, MinAge: 2 * time.Minute}
	images := []Image{
		{ID: "young", Size: 5, Seen: ago(time.Minute)},
		{ID: "recent", Size: 5, Seen: ago(time.Hour), LastUsed: ago(time.Minute)},
		{ID: "used", Size: 5, Seen: ago(time.Hour), LastUsed: start, KeptBy: "pod a/b uses it"},
		{ID: "pinned", Size: 5, Seen: ago(time.Hour), Pinned: true},
		{ID: "old", Size: 5, Seen: ago(48 * time.Hour), LastUsed: ago(3 * time.Hour)},
		{ID: "never", Size: 5, Seen: ago(5 * time.Hour)},
	}
	for _, c := range []struct {
		name      string
		available int64 // of 100
		policy    Policy
		all       bool
		want      string // what goes, and what is missing
	}{
		{"there is room", 16, policy, false, "[] 0"},
		{"it is full: the one that was not used for longest goes", 15, policy, false, "[never] 0"},
		{"one is not enough", 14, policy, false, "[never old] 0"},
		{"nothing more can be spared", 0, policy, false, "[never old recent] 5"},
		{"an age limit counts with room, too", 50, Policy{High: 85, Low: 80, MaxAge: 2 * time.Hour}, false, "[never old] 0"},
		{"age frees room, too", 15, Policy{High: 85, Low: 80, MaxAge: 4 * time.Hour}, false, "[never] 0"},
		{"all that can be spared", 50, policy, true, "[never old recent] 0"},
		{"100 is never", 1, Policy{High: 100, Low: 100}, false, "[] 0"},
	} {
		verdicts, missing := Plan(images, Disk{Capacity: 100, Available: c.available}, c.policy, c.all, start)
		var goes []string
		for _, v := range verdicts {
			if v.Message == "" {
				t.Errorf("%s: %s has no reason", c.name, v.ID)
			}
			if v.Remove {
				goes = append(goes, v.ID)
			}
		}
		if got := fmt.Sprintf("%v %d", goes, missing); got != c.want || len(verdicts) != len(images) {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	if v, _ := Plan(images, Disk{}, policy, false, start); v[0].Remove {
		t.Error("an unknown disk counts as full")
	}
}

func TestReasonsAreForPeople(t *testing.T) {
	image := Image{ID: "a", Size: 1, Seen: ago(100*time.Hour + time.Second)}
	for want, c := range map[string]struct {
		free   int64
		policy Policy
	}{
		"not used for 100h0m0s, and the disk is 90% full":                        {10, Policy{High: 85, Low: 80}},
		"not used for 100h0m0s, and the disk is 10% full: images go from 85% on": {90, Policy{High: 85, Low: 80}},
		"not used for 100h0m0s, which is more than 1h0m0s":                       {90, Policy{High: 85, MaxAge: time.Hour}},
		"it came 100h0m0s ago, and stays for 200h0m0s":                           {10, Policy{High: 85, Low: 80, MinAge: 200 * time.Hour}},
	} {
		v, _ := Plan([]Image{image}, Disk{100, c.free}, c.policy, false, start)
		if !strings.Contains(v[0].Message, want) {
			t.Errorf("got %q, want %q", v[0].Message, want)
		}
	}
}
