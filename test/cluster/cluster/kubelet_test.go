//go:build real

package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/cluster/kit"
	"berth/test/fixture"
	"berth/test/lab"
	"berth/test/lab/control"
	"berth/test/lab/process"
)

// A link is all that it takes: berth has the name, the flags and the files that kubeadm gives a kubelet.
func TestALinkTakesThePlaceOfTheKubelet(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t, control.ControllerManager)
	admin := kit.Client(t, plane, control.Admin())
	letAsk(t, admin)
	// Its containerd is a runtime that is there already, and its network namespace is the machine of the kubelet.
	machine := kit.JoinNodeAs(t, plane, lab.NodeConfig{Name: "one", Flags: []string{"--port", "10350", "--healthz-port", "0"}})
	kit.Must(t, plane.AwaitNodes(t.Context()))
	k := newKubelet(t, plane, machine)
	c := newcomer(t, plane, admin, plane.URL(), "two", trusted, "eeeeee")
	k.start("--bootstrap-kubeconfig="+c.BootstrapKubeconfig, "--kubeconfig="+c.Kubeconfig)

	// It joins by a token, as the version that kubeadm expects.
	kit.Kubectl(t, plane, "wait", "node/two", "--for=create", "--timeout=60s")
	kit.Kubectl(t, plane, "wait", "node/two", "--for=condition=Ready", "--timeout=60s")
	node, err := admin.CoreV1().Nodes().Get(t.Context(), "two", metav1.GetOptions{})
	kit.Must(t, err)
	if v := node.Status.NodeInfo.KubeletVersion; !strings.HasPrefix(v, "v1.36.") {
		t.Errorf("its version is %s", v)
	}
	if pods := node.Status.Capacity.Pods().Value(); pods != 42 {
		t.Errorf("%d pods, and the flag says 42", pods)
	}
	if v, err := machine.Namespace.Run(k.program, "--version"); err != nil || v != "Kubernetes v1.36.3\n" {
		t.Errorf("version %q, %v", v, err)
	}

	// A pod runs, with its log, its link and its cgroup where everybody looks for them.
	pods := kit.PodsIn(t, admin, "default")
	pods.MustCreate(kit.OnNode(kit.WithVolume(kit.WorkloadPod("web", "serve", ":8080"), corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}), "two"))
	web := pods.Await("web", "ready", kit.IsReady)
	k.mustHaveFilesOf(web)
	pods.Await("static-two", "ready", kit.IsReady)
	kit.Kubectl(t, plane, "logs", "web") // the API server reaches it on the port of a kubelet
	k.mustServeOtherPrograms(plane, node)

	// It ends when it is asked to, leaves its pods, and finds them again.
	kit.Must(t, k.process.Stop())
	k.start("--kubeconfig=" + c.Kubeconfig)
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("later", "sleep"), "two"))
	pods.Await("later", "ready", kit.IsReady)
	kit.MustKeepInstance(t, pods.Await("web", "ready", kit.IsReady), kit.InstanceOf(web))
	k.mustLogJSON()

	// A deleted pod leaves nothing.
	pods.MustRemove("web", "later")
	kit.Within(t, kit.WaitTimeout, func() error {
		links, err := filepath.Glob(filepath.Join(k.links, "web_*"))
		if err == nil && len(links) > 0 {
			err = fmt.Errorf("links are left: %v", links)
		}
		return err
	})
}

// mustServeOtherPrograms checks what the scheduler, kube-proxy and administrators expect of a kubelet besides its pods.
func (k *kubelet) mustServeOtherPrograms(plane *lab.Lab, node *corev1.Node) {
	k.t.Helper()
	if !slices.Contains(node.Status.DeclaredFeatures, "RestartAllContainersOnContainerExits") {
		k.t.Errorf("it declares %v", node.Status.DeclaredFeatures)
	}
	if out, err := k.machine.Namespace.Run("iptables", "-t", "mangle", "-S", "KUBE-IPTABLES-HINT"); err != nil {
		k.t.Errorf("no hint which iptables is used: %s %v", out, err)
	}
	const noSuchService = "no-such-service-of-berth"
	if out := kit.Kubectl(k.t, plane, "get", "--raw", "/api/v1/nodes/two/proxy/logs/?query="+noSuchService); !strings.Contains(out, "log not found for "+noSuchService) {
		k.t.Errorf("the log query says %q", out)
	}
}

// kubelet is berth under the name of kubelet, beside another agent whose runtime it uses. The folder of links to logs
// is fixed for a kubelet: a mount namespace gives this one a folder of its own.
type kubelet struct {
	t                         *testing.T
	dir, root, links, program string
	machine                   *lab.Node
	process                   *process.Process
}

func newKubelet(t *testing.T, plane *lab.Lab, machine *lab.Node) *kubelet {
	t.Helper()
	dir := filepath.Join(plane.Dir(), "k")
	k := &kubelet{
		t: t, machine: machine, dir: dir, root: filepath.Join(dir, "root"), links: filepath.Join(dir, "links"),
		program: filepath.Join(dir, "kubelet"),
	}
	for _, d := range []string{k.links, filepath.Join(dir, "conf.d"), filepath.Join(dir, "manifests"), "/var/log/containers"} {
		kit.Must(t, os.MkdirAll(d, 0o755))
	}
	kit.Must(t, os.Symlink(filepath.Join(fixture.BinDir(), "berth"), k.program))
	// Mounts of volumes have to be seen by the runtime, which is in another mount namespace.
	kit.Must(t, unix.Mount(dir, dir, "", unix.MS_BIND, ""))
	kit.Must(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
	t.Cleanup(k.remove)
	const header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	k.write("ca.crt", string(plane.Authority()))
	// As kubeadm writes it, with the driver and the version of cgroups that this machine has.
	k.write("config.yaml", header+`
authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
  x509: {clientCAFile: ca.crt}
authorization:
  mode: Webhook
  webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: ""
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
logging:
  flushFrequency: 0
  options:
    json: {infoBufferSize: "0"}
    text: {infoBufferSize: "0"}
  verbosity: 0
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
`)
	// How full the disk of this machine is should not matter.
	k.write("conf.d/10-eviction.conf", header+"evictionHard: {nodefs.available: 100Mi, imagefs.available: 100Mi, nodefs.inodesFree: 0%, imagefs.inodesFree: 0%}\nimageGCHighThresholdPercent: 100\n")
	k.write("conf.d/20-logs.conf", header+fmt.Sprintf("podLogsDir: %s/log/pods\nmaxPods: 41\nenableSystemLogQuery: true\n", dir))
	k.write("manifests/static.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: static}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers: [{name: app, image: "+kit.WorkloadImage+", args: [sleep]}]\n")
	return k
}

func (k *kubelet) write(name, text string) {
	k.t.Helper()
	kit.Must(k.t, os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o644))
}

// start starts it with the flags that a kubelet gets from kubeadm.
func (k *kubelet) start(flags ...string) {
	k.t.Helper()
	args := append([]string{
		"--mount", "--propagation", "unchanged", "sh", "-c", `mount --bind "$0" /var/log/containers && exec "$@"`, k.links, k.program,
		"--config=" + filepath.Join(k.dir, "config.yaml"), "--config-dir=" + filepath.Join(k.dir, "conf.d"),
		"--root-dir=" + k.root, "--cert-dir=" + filepath.Join(k.root, "pki"),
		"--container-runtime-endpoint=unix://" + filepath.Join(k.machine.Root, "run", "containerd.sock"),
		"--node-ip=" + k.machine.Address, "--hostname-override=two", "--pod-infra-container-image=localhost/pause:3.10",
		"--runtime-cgroups=/system.slice/containerd.service", "--max_pods=42", "--logging-format=json",
	}, flags...)
	var err error
	k.process, err = process.Start(k.machine.Namespace, k.log(), "unshare", args...)
	kit.Must(k.t, err)
}

func (k *kubelet) log() string { return filepath.Join(k.dir, "kubelet.log") }

// remove ends the agent and its pods.
func (k *kubelet) remove() {
	if k.t.Failed() {
		k.t.Logf("log of the kubelet:\n%s", process.Tail(k.log(), 32<<10))
	}
	if k.process != nil && k.process.Running() {
		if err := k.process.Stop(); err != nil {
			k.t.Error(err)
		}
	}
	if _, err := k.machine.Namespace.Run(filepath.Join(fixture.BinDir(), "berth"), "down", "--root-dir", k.root, "--grace-period", "2", "--timeout", "1m"); err != nil {
		k.t.Error(err)
	}
	if err := unix.Unmount(k.dir, 0); err != nil {
		k.t.Errorf("mounts are left in %s: %v", k.dir, err)
		_ = unix.Unmount(k.dir, unix.MNT_DETACH)
	}
	for _, controller := range []string{"memory", "pids"} {
		if _, err := os.Stat(filepath.Join("/sys/fs/cgroup", controller, "kubepods")); err == nil {
			k.t.Errorf("cgroup %s:/kubepods is left", controller)
		}
	}
}

// mustHaveFilesOf fails the test unless the files of a running pod are where those of a kubelet are.
func (k *kubelet) mustHaveFilesOf(p *corev1.Pod) {
	k.t.Helper()
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	log := filepath.Join(k.dir, "log/pods", fmt.Sprintf("%s_%s_%s/app/0.log", p.Namespace, p.Name, p.UID))
	link := filepath.Join(k.links, fmt.Sprintf("%s_%s_app-%s.log", p.Name, p.Namespace, id))
	if target, err := os.Readlink(link); err != nil || target != log {
		k.t.Errorf("link %s leads to %q: %v", link, target, err)
	}
	for _, path := range []string{
		log, k.root + "/pki/kubelet-client-current.pem", k.root + "/pki/kubelet.crt", k.root + "/pki/kubelet.key",
		k.root + "/pods/" + string(p.UID) + "/volumes/kubernetes.io~empty-dir/disk", k.root + "/plugins_registry", k.root + "/pod-resources",
		k.root + "/device-plugins", k.root + "/checkpoints", k.root + "/berth/settings.json",
		"/sys/fs/cgroup/memory/kubepods/besteffort/pod" + string(p.UID) + "/" + id,
	} {
		if _, err := os.Stat(path); err != nil {
			k.t.Error(err)
		}
	}
	entries, err := os.ReadDir(k.root)
	kit.Must(k.t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"berth", "berth.lock", "berth.sock", "checkpoints", "device-plugins", "image_manager", "pki", "plugins", "plugins_registry", "pod-resources", "pods"}
	if !slices.Equal(names, want) {
		k.t.Errorf("its root holds %v, want %v", names, want)
	}
}

// mustLogJSON fails the test unless each line of the log is a JSON object.
func (k *kubelet) mustLogJSON() {
	k.t.Helper()
	file, err := os.Open(k.log())
	kit.Must(k.t, err)
	defer file.Close()
	lines := 0
	for s := bufio.NewScanner(file); s.Scan(); lines++ {
		var line struct{ Msg string }
		if err := json.Unmarshal(s.Bytes(), &line); err != nil || line.Msg == "" {
			k.t.Fatalf("line %d of the log is not JSON: %s", lines+1, s.Text())
		}
	}
	if lines == 0 {
		k.t.Error("it logs nothing")
	}
}
