package cgroupname

import (
	"path"
	"testing"
)

func TestPathsAndParents(t *testing.T) {
	const uid = "0b7a61f6-8f2e-4a0e-9d3c-6a2f1c0e7b11"
	for name, want := range map[string]struct{ path, parent string }{
		"/":                   {"/", "/"},
		"/kubepods":           {"/kubepods.slice", "kubepods.slice"},
		"/kubepods/burstable": {"/kubepods.slice/kubepods-burstable.slice", "kubepods-burstable.slice"},
		"/kubepods/besteffort/pod" + uid: {
			"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0b7a61f6_8f2e_4a0e_9d3c_6a2f1c0e7b11.slice",
			"kubepods-besteffort-pod0b7a61f6_8f2e_4a0e_9d3c_6a2f1c0e7b11.slice",
		},
		"/kubepods/pod" + uid: {
			"/kubepods.slice/kubepods-pod0b7a61f6_8f2e_4a0e_9d3c_6a2f1c0e7b11.slice", "kubepods-pod0b7a61f6_8f2e_4a0e_9d3c_6a2f1c0e7b11.slice",
		},
		"/berth-0a1b2c3d/podx": {"/berth_0a1b2c3d.slice/berth_0a1b2c3d-podx.slice", "berth_0a1b2c3d-podx.slice"},
		"/my_pods/kubepods":    {"/my_pods.slice/my_pods-kubepods.slice", "my_pods-kubepods.slice"},
		"/kubepods/poda_b-c":   {`/kubepods.slice/kubepods-poda\x5fb_c.slice`, `kubepods-poda\x5fb_c.slice`},
	} {
		if got := Systemd.Path(name); got != want.path {
			t.Errorf("%s: the path is %s, want %s", name, got, want.path)
		}
		if got := Systemd.Slice(name); got != want.parent {
			t.Errorf("%s: the parent is %s, want %s", name, got, want.parent)
		}
		if path, parent := Cgroupfs.Path(name), Cgroupfs.Slice(name); path != name || parent != name {
			t.Errorf("%s: with cgroupfs it is %s and %s", name, path, parent)
		}
	}
}

func TestAPodIsReadFromItsDirectory(t *testing.T) {
	for _, driver := range []Driver{Cgroupfs, Systemd} {
		for _, parent := range []string{"/kubepods", "/kubepods/burstable", "/berth-0a1b", "/"} {
			for _, component := range []string{"pod0b7a61f6-8f2e", "poda_b-c", "pod1.2", "burstable"} {
				dir := path.Base(driver.Path(path.Join(parent, component)))
				if got := driver.Child(parent, dir); got != component {
					t.Errorf("%s: %s in %s: got %q, want %q", driver, dir, parent, got, component)
				}
			}
		}
	}
	for _, dir := range []string{"cri-containerd-12ab.scope", "kubepods-burstable-poda.slice", "other-poda.slice", "kubepods.slice", "init.scope"} {
		if got := Systemd.Child("/kubepods", dir); got != "" {
			t.Errorf("%s is taken for %q", dir, got)
		}
	}
}

func TestNamesOfAdministrators(t *testing.T) {
	for given, want := range map[string]struct{ cgroupfs, systemd string }{
		"/system.slice":                     {"/system.slice", "/system"},
		"system.slice":                      {"/system.slice", "/system"},
		"/runtime.slice/runtime-kube.slice": {"/runtime.slice/runtime-kube.slice", "/runtime/kube"},
		"/system-reserved":                  {"/system-reserved", "/system/reserved"},
		"/a_b.slice":                        {"/a_b.slice", "/a-b"},
		"-.slice":                           {"/-.slice", "/"},
		"/system.slice/containerd.service":  {"/system.slice/containerd.service", "/containerd.service"},
	} {
		if got := Cgroupfs.Name(given); got != want.cgroupfs {
			t.Errorf("%s: with cgroupfs it is %s, want %s", given, got, want.cgroupfs)
		}
		if got := Systemd.Name(given); got != want.systemd {
			t.Errorf("%s: with systemd it is %s, want %s", given, got, want.systemd)
		}
	}
}

func TestOnlyTwoDrivers(t *testing.T) {
	for _, name := range []string{"", "Systemd", "none"} {
		if d, err := Parse(name); err == nil {
			t.Errorf("%q is %q", name, d)
		}
	}
	if d, err := Parse("systemd"); err != nil || d != Systemd {
		t.Errorf("got %q, %v", d, err)
	}
}
