package app

import (
	"encoding/json"
	"testing"

	"berth/internal/config"
	"berth/internal/lib/cgroupname"
)

func TestTheDriverInForceIsShown(t *testing.T) {
	shown := func(d cgroupname.Driver) string {
		text, err := json.Marshal(map[string]any{"kubeletconfig": configz{&config.Config{Cgroups: config.Cgroups{Driver: cgroupname.Cgroupfs}}, func() cgroupname.Driver { return d }}})
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Kubeletconfig struct{ CgroupDriver string }
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		return got.Kubeletconfig.CgroupDriver
	}
	if got := shown(""); got != "cgroupfs" {
		t.Errorf("before the runtime is up: %q", got)
	}
	if got := shown(cgroupname.Systemd); got != "systemd" {
		t.Errorf("after that: %q", got)
	}
}
