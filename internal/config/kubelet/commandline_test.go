package kubelet

import (
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func parse(t *testing.T, args ...string) *CommandLine {
	t.Helper()
	c, err := Parse(args)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFlagsOfEveryType(t *testing.T) {
	c := parse(t,
		"--root-dir=/r", "--node_labels=a=b,c=d", "--node-labels", "e=f", "--seccomp-default", "--max-pods", "0x10", "--v=3",
		"--cluster-dns=10.0.0.1,10.0.0.2", "--cluster-dns=10.0.0.3", "--eviction-hard=memory.available<1Gi,pid.available<5%", "--eviction-soft=",
		"--cpu-manager-policy-options=a=1,2", "--feature-gates=MemoryQoS=true,NodeSwap=false", "--feature-gates=MemoryQoS=false",
		"--manifest-url-header=a:1,b:2", "--manifest-url-header=a:3", "--register-with-taints=a=b:NoSchedule,c:NoExecute",
		"--sync-frequency=90s", "--address=::", "--log-text-info-buffer-size=1Ki", "--vmodule=a=1,b*=2")
	for name, want := range map[string]any{
		"root-dir": "/r", "seccomp-default": true, "max-pods": int64(16), "v": int64(3), "cluster-dns": []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"},
		"eviction-hard": map[string]string{"memory.available": "1Gi", "pid.available": "5%"}, "eviction-soft": map[string]string{},
		"cpu-manager-policy-options": map[string]string{"a": "1,2"}, "feature-gates": map[string]bool{"MemoryQoS": false, "NodeSwap": false},
		"manifest-url-header":  map[string][]string{"a": {"1", "3"}, "b": {"2"}},
		"register-with-taints": []v1.Taint{{Key: "a", Value: "b", Effect: v1.TaintEffectNoSchedule}, {Key: "c", Effect: v1.TaintEffectNoExecute}},
		"sync-frequency":       "1m30s", "address": "::", "log-text-info-buffer-size": "1Ki",
		"node-labels": map[string]string{"a": "b", "c": "d", "e": "f"},
	} {
		if got := c.given[name]; !reflect.DeepEqual(got, want) {
			t.Errorf("--%s: got %#v, want %#v", name, got, want)
		}
	}
	if c.String("cert-dir") != "/var/lib/kubelet/pki" || !c.Bool("seccomp-default") || len(c.Labels()) != 3 {
		t.Errorf("got %v", c.given)
	}
	given := c.Given()
	if given["manifest-url-header"] != "(not shown)" || given["cluster-dns"] != "10.0.0.1,10.0.0.2,10.0.0.3" || given["max-pods"] != "0x10" {
		t.Errorf("shown: %v", given)
	}
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"--max-pod=3":                   "unknown flag: --max-pod; did you mean --max-pods?",
		"--cgroupdriver=systemd":        "unknown flag: --cgroupdriver; did you mean --cgroup-driver?",
		"--wholly-unheard-of-this-is":   "unknown flag: --wholly-unheard-of-this-is",
		"--max-pods=many":               "--max-pods",
		"--max-pods=3000000000":         "--max-pods",
		"--address=here":                "not a valid IP address",
		"--eviction-hard=a":             "malformed pair",
		"--feature-gates=MemoryQoS=oui": "MemoryQoS=oui",
		"--reserved-memory=1Gi":         "0:memory=1Gi",
		"--register-with-taints=a":      "key=value:effect",
		"--manifest-url-header=geheim":  "name:value",
		"run":                           "unknown command run",
	} {
		_, err := Parse([]string{args})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}

func TestVersionAndHelp(t *testing.T) {
	for args, want := range map[string][2]bool{"--version": {true, false}, "--version=true": {true, false}, "--version=raw": {true, true}, "--version=false": {}} {
		if asked, raw := parse(t, args).Version(); asked != want[0] || raw != want[1] {
			t.Errorf("%s: got %t, %t", args, asked, raw)
		}
	}
	c := parse(t, "-h")
	text := c.HelpText()
	for _, want := range []string{"--max-pods int32", "sets maxPods of the configuration (default 110)", "-v, --v Level", "--root-dir string", `(default "/var/lib/kubelet")`, "(no effect: "} {
		if !c.Help || !strings.Contains(text, want) {
			t.Errorf("the help lacks %q", want)
		}
	}
	if strings.Contains(text, "pod-infra-container-image") {
		t.Error("the help has a flag that the kubelet does not have any more")
	}
}
