package csi

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestEachCallCanBeMeasured(t *testing.T) {
	w := newWorld(t)
	var seen []string
	w.m.OnCall = func(driver, method, code string, migrated bool, took time.Duration) {
		seen = append(seen, fmt.Sprint(driver, " ", method, " ", code, " ", migrated))
		if took <= 0 {
			t.Errorf("%s took %s", method, took)
		}
	}
	// given a driver that has no room at first
	full := true
	w.driver.before = func(call string) error {
		if full && call == "publish h" {
			return status.Error(codes.ResourceExhausted, "no room")
		}
		return nil
	}
	r := w.request("a", "h")
	w.mountFails(r, "no room")
	full = false
	w.mount(r)
	// and a volume of it that was of another kind
	old := w.request("b", "old")
	old.Migrated = true
	w.mount(old)

	want := []string{
		disks + " NodeStageVolume OK false", disks + " NodePublishVolume ResourceExhausted false",
		disks + " NodeStageVolume OK false", disks + " NodePublishVolume OK false",
		disks + " NodeStageVolume OK true", disks + " NodePublishVolume OK true",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("seen: %q, want %q", seen, want)
	}
}
