package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/config"
	"berth/internal/lib/cgroupname"
	"berth/internal/lib/pod"
)

// fakeDriver is the answer of a runtime.
type fakeDriver struct {
	says cgroupname.Driver
	err  error
}

func (f *fakeDriver) CgroupDriver(context.Context) (cgroupname.Driver, error) { return f.says, f.err }

func TestTheCgroupDriverIsThatOfTheRuntime(t *testing.T) {
	const systemd, cgroupfs = cgroupname.Systemd, cgroupname.Cgroupfs
	for name, test := range map[string]struct {
		says, configured cgroupname.Driver
		occupied         string // a cgroup with processes
		noSystemd        bool
		want             cgroupname.Driver
		warns            bool
		ends             []string // parts of the error that ends the agent
	}{
		"the runtime says it":                           {says: systemd, want: systemd},
		"the runtime and the configuration agree":       {says: systemd, configured: systemd, want: systemd},
		"the configuration has another one":             {says: cgroupfs, configured: systemd, want: cgroupfs, warns: true},
		"the configuration has the kubelet's default":   {says: systemd, configured: cgroupfs, want: systemd},
		"the runtime does not say it":                   {configured: systemd, want: systemd},
		"neither says it":                               {want: cgroupfs},
		"pods of the same driver run":                   {says: systemd, occupied: "/kubepods.slice", want: systemd},
		"pods of cgroupfs run":                          {says: systemd, occupied: "/kubepods", ends: []string{"uses the cgroup driver systemd", "of the driver cgroupfs", "/kubepods"}},
		"pods of systemd run":                           {says: cgroupfs, occupied: "/kubepods.slice", ends: []string{"uses the cgroup driver cgroupfs", "of the driver systemd", "/kubepods.slice"}},
		"there is no systemd":                           {says: systemd, noSystemd: true, ends: []string{"systemd", "not here"}},
		"there is no systemd, and the runtime knows so": {says: cgroupfs, noSystemd: true, want: cgroupfs},
	} {
		log := &bytes.Buffer{}
		var ended error
		d := &cgroupDriver{
			runtime: &fakeDriver{says: test.says}, config: &config.Config{CgroupRoot: "/kubepods", Cgroups: config.Cgroups{Driver: test.configured}},
			occupied: func(path string) (bool, error) { return path == test.occupied, nil },
			systemd: func() error {
				if test.noSystemd {
					return errors.New("not here")
				}
				return nil
			},
			fail: func(err error) { ended = err }, log: slog.New(slog.NewTextHandler(log, nil)),
		}
		err := d.settle(t.Context())
		if d.get() != test.want || (err != nil) != (test.want == "") || (ended != nil) != (err != nil) {
			t.Errorf("%s: got %q, %v, %v", name, d.get(), err, ended)
		}
		if got := strings.Contains(log.String(), "level=WARN"); got != test.warns {
			t.Errorf("%s: it logs %s", name, log)
		}
		for _, part := range test.ends {
			if ended == nil || !strings.Contains(ended.Error(), part) {
				t.Errorf("%s: %v does not say %q", name, ended, part)
			}
		}
	}
}

func TestTheCgroupDriverIsAskedUntilThereIsAnAnswer(t *testing.T) {
	runtime := &fakeDriver{err: errors.New("starting")}
	d := &cgroupDriver{
		runtime: runtime, config: &config.Config{CgroupRoot: "/berth"}, occupied: func(string) (bool, error) { return true, nil },
		systemd: func() error { return nil }, log: slog.New(slog.DiscardHandler),
	}
	if err := d.settle(t.Context()); !errors.Is(err, runtime.err) || d.get() != "" {
		t.Errorf("got %q, %v", d.get(), err)
	}
	*runtime = fakeDriver{says: cgroupname.Systemd}
	if err := d.settle(t.Context()); err != nil || d.get() != cgroupname.Systemd { // 'berth down' does not mind other pods
		t.Errorf("got %q, %v", d.get(), err)
	}
	*runtime = fakeDriver{says: cgroupname.Cgroupfs}
	if err := d.settle(t.Context()); err != nil || d.get() != cgroupname.Systemd {
		t.Errorf("it changed to %q, %v", d.get(), err)
	}
}

func TestPodsWhoseCgroupVanishedAreFound(t *testing.T) {
	named := func(uid pod.UID) *v1.Pod {
		p := &v1.Pod{}
		p.UID = uid
		return p
	}
	ready := []pod.Sandbox{{State: pod.SandboxReady}}
	got := withoutCgroup(
		[]*v1.Pod{named("well"), named("lost"), named("not started"), named("ended")},
		[]pod.Observed{{UID: "well", Sandboxes: ready}, {UID: "lost", Sandboxes: ready}, {UID: "ended", Sandboxes: []pod.Sandbox{{}}}, {UID: "orphan", Sandboxes: ready}},
		func(p *v1.Pod) bool { return p.UID == "well" },
	)
	if !slices.Equal(got, []pod.UID{"lost"}) {
		t.Errorf("got %q", got)
	}
}

func TestTheDriverInForceIsShown(t *testing.T) {
	shown := func(d cgroupname.Driver) string {
		text, err := json.Marshal(map[string]any{"kubeletconfig": configz{&config.Config{Cgroups: config.Cgroups{Driver: cgroupname.Cgroupfs}}, &cgroupDriver{driver: d}}})
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
