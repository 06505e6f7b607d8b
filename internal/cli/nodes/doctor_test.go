package nodes

import (
	"path/filepath"
	"slices"
	"testing"

	"berth/internal/config"
	"berth/internal/host/rootlock"
)

func TestTheDoctorLooksAtThePortsOfTheRoot(t *testing.T) {
	other := t.TempDir()
	ran := filepath.Join(t.TempDir(), "root")
	lock, err := rootlock.Acquire(ran)
	mustDo(t, err)
	lock.Release()
	c, err := config.LoadOnHost(ran, config.Flags{}, nil)
	mustDo(t, err)
	c.API.HealthzPort = 1234
	mustDo(t, c.Save())
	for name, test := range map[string]struct {
		root, kubeconfig string
		want             []int
	}{
		"another root":              {other, "", nil},
		"another root in a cluster": {other, "/etc/kubeconfig", []int{10250, 10248}},
		"one that answered":         {ran, "", []int{1234}},
	} {
		found, err := agentPorts(test.root, test.kubeconfig)
		mustDo(t, err)
		var got []int
		for _, p := range found {
			got = append(got, p.Number)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
