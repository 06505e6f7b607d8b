package cri

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/cgroupname"
)

func TestReadyNeedsTheRuntimeAndItsNetwork(t *testing.T) {
	for name, test := range map[string]struct {
		conditions []*runtimeapi.RuntimeCondition
		want       string
	}{
		"both":       {[]*runtimeapi.RuntimeCondition{{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: true}}, ""},
		"no network": {[]*runtimeapi.RuntimeCondition{{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Reason: "R", Message: "no plugin"}}, "NetworkReady: not ready: R: no plugin"},
		"no runtime": {[]*runtimeapi.RuntimeCondition{{Type: "RuntimeReady"}, {Type: "NetworkReady", Status: true}}, "RuntimeReady: not ready: : "},
		"others":     {[]*runtimeapi.RuntimeCondition{{Type: "ContainerdHasNoDeprecationWarnings"}}, ""},
	} {
		err := clientOf(t, &server{conditions: test.conditions}).Ready(t.Context())
		if test.want == "" && err != nil || test.want != "" && (!errors.Is(err, ErrNotReady) || err.Error() != test.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestInfoSeparatesRuntimeAndNetwork(t *testing.T) {
	up, down := true, false
	for name, test := range map[string]struct {
		runtime, network bool
		wantRuntime      string
		wantNetwork      string
	}{
		"both":       {runtime: up, network: up},
		"no network": {runtime: up, network: down, wantNetwork: "NetworkReady: not ready: R: no plugin"},
		"no runtime": {runtime: down, network: up, wantRuntime: "RuntimeReady: not ready: Q: no shim"},
		"neither":    {wantRuntime: "RuntimeReady: not ready: Q: no shim", wantNetwork: "NetworkReady: not ready: R: no plugin"},
	} {
		info, err := clientOf(t, &server{conditions: []*runtimeapi.RuntimeCondition{
			{Type: "RuntimeReady", Status: test.runtime, Reason: "Q", Message: "no shim"},
			{Type: "NetworkReady", Status: test.network, Reason: "R", Message: "no plugin"},
		}}).Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for want, got := range map[*string]error{&test.wantRuntime: info.Runtime, &test.wantNetwork: info.Network} {
			if *want == "" && got != nil || *want != "" && (!errors.Is(got, ErrNotReady) || got.Error() != *want) {
				t.Errorf("%s: got %v, want %q", name, got, *want)
			}
		}
	}
}

func TestInfoHasTheFeaturesOfTheRuntime(t *testing.T) {
	s := &server{answers: map[string]proto.Message{"Status": &runtimeapi.StatusResponse{
		RuntimeHandlers: []*runtimeapi.RuntimeHandler{
			{Name: "runc", Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true, UserNamespaces: true}},
			{Name: "gvisor"},
			{Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}},
		},
		Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true, UserNamespacesHostNetwork: true},
	}}}
	got, err := clientOf(t, s).Info(t.Context())
	want := []Handler{{UserNamespaces: true}, {Name: "gvisor"}, {Name: "runc", RecursiveReadOnlyMounts: true, UserNamespaces: true}}
	if err != nil || !slices.Equal(got.Handlers, want) || !got.SupplementalGroups || !got.HostNetworkUserNamespaces {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestTheCgroupDriverIsAsked(t *testing.T) {
	answer := func(linux *runtimeapi.LinuxRuntimeConfiguration) *server {
		return &server{answers: map[string]proto.Message{"RuntimeConfig": &runtimeapi.RuntimeConfigResponse{Linux: linux}}}
	}
	for name, test := range map[string]struct {
		of    *server
		want  cgroupname.Driver
		fails bool
	}{
		"systemd":                 {of: answer(&runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_SYSTEMD}), want: cgroupname.Systemd},
		"cgroupfs":                {of: answer(&runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_CGROUPFS}), want: cgroupname.Cgroupfs},
		"a new one":               {of: answer(&runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: 7}), fails: true},
		"an answer without it":    {of: answer(nil)},
		"a runtime that is old":   {of: &server{}},
		"a runtime that restarts": {of: &server{fails: map[string]error{"RuntimeConfig": status.Error(codes.Unavailable, "starting")}}, fails: true},
	} {
		got, err := clientOf(t, test.of).CgroupDriver(t.Context())
		if got != test.want || (err != nil) != test.fails {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func TestARuntimeWithoutFeatures(t *testing.T) {
	s := &server{answers: map[string]proto.Message{"Status": &runtimeapi.StatusResponse{}}}
	got, err := clientOf(t, s).Info(t.Context())
	if err != nil || len(got.Handlers) > 0 || got.SupplementalGroups || got.HostNetworkUserNamespaces || got.Runtime != nil || got.Network != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestWhetherTheRuntimeLabelsContainers(t *testing.T) {
	for config, want := range map[string]bool{
		`{"enableSelinux":false,"containerd":{}}`: false,
		`{"enableSelinux":true}`:                  true,
		`{"sandboxImage":"pause"}`:                true,
		`selinux = true`:                          true,
		``:                                        true,
	} {
		s := &server{answers: map[string]proto.Message{"Status": &runtimeapi.StatusResponse{Info: map[string]string{"config": config}}}}
		if got, err := clientOf(t, s).Labels(t.Context()); err != nil || got != want {
			t.Errorf("%s: got %v, %v", config, got, err)
		}
	}
}
