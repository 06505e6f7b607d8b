package node

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// applied returns the Node that a server makes of n and a patch.
func applied(t *testing.T, n *v1.Node, patch []byte) *v1.Node {
	t.Helper()
	before, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, v1.Node{})
	if err != nil {
		t.Fatal(err)
	}
	out := &v1.Node{}
	if err := json.Unmarshal(after, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAStatusPatchLeadsToWhatIsWanted(t *testing.T) {
	s := Settings{Name: "box", Port: 10250}
	yes := true
	rich := someFacts()
	rich.Runtime.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: &yes}
	rich.Runtime.Images = []v1.ContainerImage{{Names: []string{"localhost/a:1"}, SizeBytes: 5}}
	rich.Volumes = Volumes{InUse: []v1.UniqueVolumeName{"v"}, All: true}
	poor := Facts{Machine: Machine{CPUs: 1}, Addresses: []string{"10.0.0.8"}, Volumes: Volumes{All: true}}
	node := func(f Facts) *v1.Node {
		n := Build(f, s, Health{}, noon)
		n.UID = "u1"
		n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: "KernelDeadlock", Status: v1.ConditionFalse})
		n.Status.VolumesAttached = []v1.AttachedVolume{{Name: "v"}}
		return n
	}
	for name, c := range map[string]struct{ from, to Facts }{
		"more to show": {poor, rich}, "less to show": {rich, poor}, "the same": {rich, rich},
	} {
		t.Run(name, func(t *testing.T) {
			shown := node(c.from)
			// A controller took us for dead after we last looked.
			truth := shown.DeepCopy()
			find(truth.Status.Conditions, v1.NodeReady).Status = v1.ConditionUnknown
			truth.Status.Capacity["example.com/new"] = resource.MustParse("1")

			want := Status(c.to, s, Health{Network: errors.New("x")}, shown.Status, noon.Add(time.Minute))
			patch, err := statusPatch(shown, &want)
			if err != nil {
				t.Fatal(err)
			}
			got := applied(t, truth, patch)
			delete(got.Status.Capacity, "example.com/new") // kept
			if len(truth.Status.Capacity)-1 != len(shown.Status.Capacity) || !same(got.Status, want) {
				t.Errorf("patch %s\ngave %+v\nwant %+v", patch, got.Status, want)
			}
		})
	}
}

func TestAPatchSaysOnlyWhatDiffers(t *testing.T) {
	shown := Build(someFacts(), Settings{Name: "box"}, Health{}, noon)
	shown.UID = "u1"
	want := Status(someFacts(), Settings{Name: "box"}, Health{}, shown.Status, noon.Add(time.Minute))
	if !sameStatus(shown.Status, want) {
		t.Fatal("a heartbeat is taken for a change")
	}
	text, err := statusPatch(shown, &want)
	if err != nil {
		t.Fatal(err)
	}
	var patch struct {
		Metadata metav1.ObjectMeta
		Status   map[string]any
	}
	if err := json.Unmarshal(text, &patch); err != nil {
		t.Fatal(err)
	}
	if patch.Metadata.UID != "u1" || len(patch.Status) != 1 || patch.Status["conditions"] == nil {
		t.Errorf("got %s", text)
	}
}

func TestLabelsOfOthersStay(t *testing.T) {
	s := Settings{Name: "box", Labels: map[string]string{"shelf": "3", v1.LabelTopologyZone: "z"}}
	built := Build(someFacts(), s, Health{}, noon)
	shown := built.DeepCopy()
	shown.Labels[v1.LabelHostname] = "wrong"
	delete(shown.Labels, v1.LabelTopologyZone)
	shown.Labels["shelf"] = "4" // the cluster's word counts
	shown.Labels["team"] = "x"
	shown.Annotations = map[string]string{"a": "b"}

	patch, err := metadataPatch(shown, built)
	if err != nil {
		t.Fatal(err)
	}
	got := applied(t, shown, patch)
	for key, want := range map[string]string{v1.LabelHostname: "box", v1.LabelTopologyZone: "z", "shelf": "4", "team": "x"} {
		if got.Labels[key] != want {
			t.Errorf("label %s is %q, want %q", key, got.Labels[key], want)
		}
	}
	if got.Annotations["a"] != "b" || got.Annotations[attachAnnotation] != "true" {
		t.Errorf("annotations %v", got.Annotations)
	}
	if again, err := metadataPatch(got, built); again != nil || err != nil {
		t.Errorf("a second patch: %s, %v", again, err)
	}
}
