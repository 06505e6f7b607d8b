//go:build real

package machine

import (
	"path/filepath"
	"testing"

	"berth/test/lab/control"
	"berth/test/leftovers"
	"berth/test/netns"
)

const (
	// networkName is the name of the emulator's network namespace.
	networkName = "berth-machine"
	// planeAddress is where the emulated machine reaches the loopback interface of that namespace.
	planeAddress = "10.0.2.2"
)

// newNetwork makes the network namespace of the emulator, in which nothing else is to be reached.
func newNetwork(t *testing.T) *netns.Namespace {
	t.Helper()
	must(t, leftovers.Remove(networkName))
	network, err := netns.New(networkName)
	must(t, err)
	t.Cleanup(func() {
		if err := network.Remove(); err != nil {
			t.Error(err)
		}
	})
	return network
}

// joinable starts a control plane in the network of the emulator. It returns arguments for the emulator, by which the emulated
// machine has a network that leads to the control plane, and kubeconfigs for it, as
// opt/berth/admin and opt/berth/node of its firmware configuration.
func joinable(t *testing.T, network *netns.Namespace) []string {
	t.Helper()
	_, err := network.Run("ip", "address", "add", planeAddress+"/32", "dev", "lo")
	must(t, err)
	plane, err := control.Start(t.Context(), control.Config{Namespace: network, Address: planeAddress, Programs: filepath.Join(bin, "cluster"), Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() {
		if err := plane.Close(); err != nil {
			t.Error(err)
		}
	})
	args := []string{"-nic", "user,model=virtio-net-pci"}
	for name, user := range map[string]control.User{"admin": control.Admin(), "node": control.Node("node")} {
		file := filepath.Join(t.TempDir(), name)
		must(t, plane.WriteKubeconfig(file, user, plane.URL()))
		args = append(args, "-fw_cfg", "name=opt/berth/"+name+",file="+file)
	}
	return args
}
