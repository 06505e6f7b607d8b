package render

import "testing"

func TestDevices(t *testing.T) {
	got := devices([]Device{{HostPath: "/a", ContainerPath: "/dev/x"}, {HostPath: "/b", ContainerPath: "/dev/y", ReadOnly: true}})
	if len(got) != 2 {
		t.Fatal(got)
	}
	if d := got[0]; d.HostPath != "/a" || d.ContainerPath != "/dev/x" || d.Permissions != "mrw" {
		t.Error(d)
	}
	if d := got[1]; d.HostPath != "/b" || d.ContainerPath != "/dev/y" || d.Permissions != "r" {
		t.Error(d)
	}
}
