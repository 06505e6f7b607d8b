package kubelet

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// upstreamFacts are printed by the kubelet's own code (test/lab/parts/kubernetes/facts).
type upstreamFacts struct {
	Flags        map[string]struct{ Shorthand, Type, Default, Bare string }
	Defaults     tree
	EvictionHard map[string]string
}

func readFacts(t *testing.T) upstreamFacts {
	t.Helper()
	text, err := os.ReadFile("testdata/upstream.json")
	if err != nil {
		t.Fatal(err)
	}
	var out upstreamFacts
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEveryFlagOfTheKubeletIsInTheTable(t *testing.T) {
	facts, ours := readFacts(t), map[string]Flag{}
	for _, f := range allFlags() {
		if _, twice := ours[f.Name]; twice {
			t.Errorf("--%s is in the table twice", f.Name)
		}
		ours[f.Name] = f
		theirs, known := facts.Flags[f.Name]
		if known == f.Removed {
			t.Errorf("--%s: the kubelet has it: %t, and the table calls it removed: %t", f.Name, known, f.Removed)
		}
		if known && (f.Type != theirs.Type || f.Shorthand != theirs.Shorthand || bare[f.Type] != theirs.Bare || f.Field == "" && f.Default != theirs.Default) {
			t.Errorf("--%s is %+v, want %+v", f.Name, f, theirs)
		}
		if f.Field == "" && f.Usage == "" {
			t.Errorf("--%s has no usage", f.Name)
		}
		if _, known := fields[f.Field]; f.Field != "" && !known {
			t.Errorf("--%s sets %q, which is no field", f.Name, f.Field)
		}
		if parsers[f.Type] == nil {
			t.Errorf("--%s: there is no parser for %q", f.Name, f.Type)
		}
	}
	if len(facts.Flags) < 140 {
		t.Errorf("upstream.json has only %d flags", len(facts.Flags))
	}
	for name := range facts.Flags {
		if _, known := ours[name]; !known {
			t.Errorf("--%s is missing", name)
		}
	}
}

func TestEveryFieldHasAState(t *testing.T) {
	paths := fieldPaths()
	for _, path := range paths {
		if _, known := fields[path]; !known {
			t.Errorf("field %s is missing in the table", path)
		}
	}
	for path, state := range fields {
		if !slices.Contains(paths, path) {
			t.Errorf("%s is no field", path)
		}
		if (state.Effect == NoEffect || state.Effect == Refused) && state.Reason == "" {
			t.Errorf("%s: say why", path)
		}
	}
}

func TestDefaultsAreTheKubelets(t *testing.T) {
	facts := readFacts(t)
	if !maps.Equal(facts.EvictionHard, evictionHard) {
		t.Errorf("eviction: got %v, want %v", evictionHard, facts.EvictionHard)
	}
	k := &kubeletconfig.KubeletConfiguration{}
	setDefaults(k, nil)
	text, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	got := tree{}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, path := range fieldPaths() {
		if got, want := got.get(path), facts.Defaults.get(path); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
}
