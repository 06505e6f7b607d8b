//go:build real && machine

package pods

import (
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"berth/test/real/kit"
)

const (
	// nodeAddress is the address that the network of the emulator has for the machine.
	nodeAddress = "10.0.2.15"
	uplink      = "eth0"
	// firmwareDir has the kubeconfigs for the cluster of the machine.
	firmwareDir = "/sys/firmware/qemu_fw_cfg/by_name/opt/berth"
)

// member is a node of the cluster that test/machine provides to the machine.
type member struct {
	*kit.Node
	flags []string // of its agent
	admin kubernetes.Interface
}

// newMember makes a node that has the network of the machine. Its agent is to be started.
func newMember(n *kit.Node) *member {
	n.T.Helper()
	kit.MustRun(n.T, "modprobe", "qemu_fw_cfg")
	kit.MustRun(n.T, "ip", "link", "set", uplink, "netns", n.Name())
	n.MustRun(n.T, "ip", "address", "add", nodeAddress+"/24", "dev", uplink)
	n.MustRun(n.T, "ip", "link", "set", uplink, "up")
	kubeconfigs := map[string]string{}
	for _, user := range []string{"admin", "node"} {
		text, err := os.ReadFile(filepath.Join(firmwareDir, user, "raw"))
		if err != nil {
			n.T.Fatal(err)
		}
		kubeconfigs[user] = filepath.Join(n.Dir, user+".kubeconfig")
		n.ReplaceFile(kubeconfigs[user], text)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfigs["admin"])
	if err != nil {
		n.T.Fatal(err)
	}
	config.Dial = n.Dial
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		n.T.Fatal(err)
	}
	return &member{n, []string{"--kubeconfig", kubeconfigs["node"], "--node-ip", nodeAddress}, admin}
}

// start starts the agent.
func (m *member) start() {
	m.T.Helper()
	m.Start(m.flags...)
}

// createPods creates pods that are assigned to the node.
func (m *member) createPods(pods ...*v1.Pod) {
	m.T.Helper()
	for _, p := range pods {
		p.Spec.NodeName = kit.NodeName
		_, err := m.admin.CoreV1().Pods(p.Namespace).Create(m.T.Context(), p, metav1.CreateOptions{})
		m.must(err)
	}
}

// deletePod deletes a pod, and does not wait until it is gone.
func (m *member) deletePod(name string) {
	m.T.Helper()
	m.must(m.admin.CoreV1().Pods(metav1.NamespaceDefault).Delete(m.T.Context(), name, metav1.DeleteOptions{}))
}

// describeDriver creates the CSIDriver object of the driver of the tests.
func (m *member) describeDriver(s storagev1.CSIDriverSpec) {
	m.T.Helper()
	_, err := m.admin.StorageV1().CSIDrivers().Create(m.T.Context(), &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: testDriver}, Spec: s}, metav1.CreateOptions{})
	m.must(err)
}

// patchDriver changes the CSIDriver object of the driver of the tests.
func (m *member) patchDriver(patch string) {
	m.T.Helper()
	_, err := m.admin.StorageV1().CSIDrivers().Patch(m.T.Context(), testDriver, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	m.must(err)
}

// claimDisk creates a PersistentVolume for a disk of the driver of the tests and a claim of the same name, which are bound to each
// other, and returns the volume of a pod that has them.
func (m *member) claimDisk(name, disk string, mode v1.PersistentVolumeAccessMode) v1.VolumeSource {
	m.T.Helper()
	core, modes := m.admin.CoreV1(), []v1.PersistentVolumeAccessMode{mode}
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("4Mi")}
	claims := core.PersistentVolumeClaims(metav1.NamespaceDefault)
	claim, err := claims.Create(m.T.Context(), &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeName: name, StorageClassName: new(""), Resources: v1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	m.must(err)
	_, err = core.PersistentVolumes().Create(m.T.Context(), &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, ClaimRef: &v1.ObjectReference{Namespace: claim.Namespace, Name: name, UID: claim.UID},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: testDriver, VolumeHandle: disk}},
		},
	}, metav1.CreateOptions{})
	m.must(err)
	claim.Status.Phase = v1.ClaimBound
	_, err = claims.UpdateStatus(m.T.Context(), claim, metav1.UpdateOptions{})
	m.must(err)
	return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

func (m *member) must(err error) {
	m.T.Helper()
	if err != nil {
		m.T.Fatal(err)
	}
}
