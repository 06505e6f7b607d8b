package csi

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestEachCallCanBeMeasured(t *testing.T) {
	w := newWorld(t)
	var seen []string
	w.m.OnCall = func(driver, method, code string, took time.Duration) {
		seen = append(seen, driver+" "+method+" "+code)
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

	want := []string{
		disks + " NodeStageVolume OK", disks + " NodePublishVolume ResourceExhausted",
		disks + " NodeStageVolume OK", disks + " NodePublishVolume OK",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("seen: %q, want %q", seen, want)
	}
}
