//go:build real

package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/internal/telemetry/trace/tracetest"
	"berth/test/real/kit"
)

func TestACollectorGetsTheStepsOfAPod(t *testing.T) {
	t.Parallel()
	// given a collector in the node's network, and an agent that traces every sync
	n := kit.NewNode(t)
	listener := n.ListenLoopback(t)
	collector := tracetest.Serve(t, listener, nil)
	n.Configure(fmt.Sprintf("tracing: {endpoint: %q, samplingRatePerMillion: 1000000}\n", listener.Addr()))
	n.Start()

	// when a pod starts, and the agent ends
	n.Apply("web.yaml", kit.NewPod("web", "sleep"))
	web := n.WaitRunning("web")["web"]
	n.Stop()

	// then there are spans of its syncs, step by step, down to the calls of the runtime
	spans := collector.Spans()
	byID, syncs := map[string]tracetest.Span{}, map[string]bool{}
	for _, s := range spans {
		byID[s.ID] = s
		if s.Name == "syncPod" && s.Attributes["k8s.pod.uid"] == string(web.UID) {
			if s.Parent != "" || s.Attributes["k8s.pod.name"] != web.Name || s.Attributes["k8s.namespace.name"] != web.Namespace {
				t.Errorf("got %+v", s)
			}
			syncs[s.ID] = true
		}
		if s.Resource["service.name"] != "berth" || s.Resource["k8s.node.name"] != kit.NodeName || s.Resource["service.version"] == "" {
			t.Errorf("it was sent by %v", s.Resource)
		}
	}
	var recorded []string // steps of the syncs, and what was done in them
	for _, s := range spans {
		if step := byID[s.Parent]; syncs[step.Parent] {
			recorded = append(recorded, step.Name+": "+s.Name)
		} else if syncs[s.Parent] {
			recorded = append(recorded, s.Name)
		}
	}
	for _, want := range []string{
		"wait for the network", "make directories", "make the cgroup", "set up volumes",
		"stop what must go", "start what is missing", "remove what is dead",
		"start what is missing: runtime.run_podsandbox", "start what is missing: runtime.create_container", "start what is missing: runtime.start_container",
	} {
		if !slices.Contains(recorded, want) {
			t.Errorf("%q is missing in:\n\t%s", want, strings.Join(recorded, "\n\t"))
		}
	}
	t.Logf("%d spans, of %d syncs of the pod", len(spans), len(syncs))
}
