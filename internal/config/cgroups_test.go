package config

import (
	"slices"
	"strings"
	"testing"

	"berth/internal/lib/cgroupname"
)

func TestTheCgroupDriver(t *testing.T) {
	for text, want := range map[string]struct {
		driver cgroupname.Driver
		shown  string
	}{"": {"", ""}, "cgroupDriver: systemd\n": {cgroupname.Systemd, "systemd"}, "cgroupDriver: cgroupfs\n": {cgroupname.Cgroupfs, "cgroupfs"}} {
		c, err := Load("/r", Flags{}, []byte(header+text), machine)
		if err != nil || c.CgroupDriver != want.driver || c.Kubelet().CgroupDriver != want.shown || slices.Contains(c.NotHonoured, "cgroupDriver") {
			t.Errorf("%q: got %+v, %v", text, c, err)
		}
	}
	if _, err := Load("/r", Flags{}, []byte(header+"cgroupDriver: Systemd\n"), machine); err == nil || !strings.Contains(err.Error(), "want cgroupfs or systemd") {
		t.Errorf("got %v", err)
	}
}
