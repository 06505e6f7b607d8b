package admit

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// testRuntime is a runtime that came up or not.
type testRuntime struct{ up bool }

func (r *testRuntime) StrictGroups() bool { return r.up }

func TestAMachineChangesWhileTheAgentRuns(t *testing.T) {
	runtime, object := &testRuntime{}, (*v1.Node)(nil)
	var pressure []v1.NodeConditionType
	var ports []ForeignPort
	m := Machine{
		Fixed: Node{Name: "box", Kernel: "6.1", AppArmor: true}, Runtime: runtime,
		InCluster: func() *v1.Node { return object }, Pressure: func() []v1.NodeConditionType { return pressure }, ForeignPorts: func() []ForeignPort { return ports },
	}
	if n := m.Node(); n.Name != "box" || n.Kernel != "6.1" || !n.AppArmor || n.StrictGroups || n.Labels != nil || len(n.Pressure)+len(n.ForeignPorts) > 0 {
		t.Errorf("at first: %+v", n)
	}
	runtime.up, pressure, ports = true, []v1.NodeConditionType{v1.NodeDiskPressure}, []ForeignPort{{}}
	object = &v1.Node{}
	object.Labels = map[string]string{"disk": "fast"}
	if n := m.Node(); n.Name != "box" || !n.StrictGroups || n.Labels["disk"] != "fast" || len(n.Pressure) != 1 || len(n.ForeignPorts) != 1 {
		t.Errorf("later: %+v", n)
	}
}
