package cgroup

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"berth/internal/lib/cgroupname"
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
		d := NewRuntimeDriver(RuntimeDriverConfig{
			Runtime: &fakeDriver{says: test.says}, Root: "/kubepods", Configured: test.configured,
			Occupied: func(path string) (bool, error) { return path == test.occupied, nil },
			Systemd: func() error {
				if test.noSystemd {
					return errors.New("not here")
				}
				return nil
			},
			Fail: func(err error) { ended = err }, Log: slog.New(slog.NewTextHandler(log, nil)),
		})
		err := d.Settle(t.Context())
		if d.Get() != test.want || (err != nil) != (test.want == "") || (ended != nil) != (err != nil) {
			t.Errorf("%s: got %q, %v, %v", name, d.Get(), err, ended)
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
	d := NewRuntimeDriver(RuntimeDriverConfig{
		Runtime: runtime, Root: "/berth", Occupied: func(string) (bool, error) { return true, nil },
		Systemd: func() error { return nil }, Log: slog.New(slog.DiscardHandler),
	})
	if err := d.Settle(t.Context()); !errors.Is(err, runtime.err) || d.Get() != "" {
		t.Errorf("got %q, %v", d.Get(), err)
	}
	*runtime = fakeDriver{says: cgroupname.Systemd}
	if err := d.Settle(t.Context()); err != nil || d.Get() != cgroupname.Systemd { // 'berth down' does not mind other pods
		t.Errorf("got %q, %v", d.Get(), err)
	}
	*runtime = fakeDriver{says: cgroupname.Cgroupfs}
	if err := d.Settle(t.Context()); err != nil || d.Get() != cgroupname.Systemd {
		t.Errorf("it changed to %q, %v", d.Get(), err)
	}
}
