//go:build real

package pods

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"berth/test/cluster/kit"
	"berth/test/lab"
)

// thirdParty returns a pod whose user is not root, and reads files by their group. It is ready once
// it answers.
func thirdParty(name string, source corev1.VolumeSource) *corev1.Pod {
	p := kit.OnNode(kit.WithVolume(kit.WorkloadPod(name, "serve", ":8080"), source), "one")
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1000)), FSGroup: new(int64(4242))}
	p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}}, PeriodSeconds: 1,
	}
	return p
}

// podsOfDrivers are the pods of one namespace of the API. They go with the test, and before
// the drivers that were started until now.
func podsOfDrivers(t *testing.T, admin kubernetes.Interface, namespace string) kit.Pods {
	p := kit.PodsIn(t, admin, namespace)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := p.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
		err := kit.Retry(ctx, kit.WaitTimeout, func() error {
			left, err := p.List(ctx, metav1.ListOptions{})
			if err == nil && len(left.Items) > 0 {
				err = fmt.Errorf("%d pods are left", len(left.Items))
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	return p
}

// nodeOne is the first node of a cluster.
func nodeOne(l *lab.Lab) *lab.Node {
	return l.Nodes()[slices.IndexFunc(l.Nodes(), func(n *lab.Node) bool { return n.Name == "one" })]
}

func TestWhoseGroupTheDisksOfADriverHave(t *testing.T) {
	t.Parallel()
	l, admin := kit.SharedNamespace(t, "groups")
	n := nodeOne(l)
	both := []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}

	// given drivers that want different things
	type driver struct {
		*csiDriver
		name string
	}
	start := func(name string, policy *storagev1.FSGroupPolicy, flags ...string) driver {
		name += ".example.com"
		d := driver{startDriver(t, n, name, flags...), name}
		describeDriver(t, admin, name, storagev1.CSIDriverSpec{FSGroupPolicy: policy, VolumeLifecycleModes: both})
		return d
	}
	file := start("file", new(storagev1.FileFSGroupPolicy))
	none := start("none", new(storagev1.NoneFSGroupPolicy))
	exact := start("exact", new(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy))
	silent := start("silent", nil)
	mounts := start("mounts", new(storagev1.FileFSGroupPolicy), "-group")

	pods := podsOfDrivers(t, admin, "groups")

	// and disks of theirs, with a file that is root's alone
	const (
		untouched, given = "600 0:0", "660 0:4242"
		rwo, rwop, rwx   = corev1.ReadWriteOnce, corev1.ReadWriteOncePod, corev1.ReadWriteMany
	)
	cases := map[string]struct {
		of       driver
		fsType   string
		mode     corev1.PersistentVolumeAccessMode
		readOnly bool
		fits     bool                           // the root of the disk is the group's
		policy   *corev1.PodFSGroupChangePolicy // of the pod
		want     string
	}{
		"file":             {of: file, mode: rwx, want: given},
		"file-readonly":    {of: file, mode: rwx, readOnly: true, want: untouched},
		"none":             {of: none, fsType: "ext4", mode: rwo, want: untouched},
		"exact":            {of: exact, fsType: "ext4", mode: rwo, want: given},
		"exact-pod":        {of: exact, fsType: "ext4", mode: rwop, want: given},
		"exact-typeless":   {of: exact, mode: rwo, want: untouched},
		"exact-shared":     {of: exact, fsType: "ext4", mode: rwx, want: untouched},
		"silent":           {of: silent, fsType: "ext4", mode: rwo, want: given},
		"silent-typeless":  {of: silent, mode: rwo, want: untouched},
		"mounts":           {of: mounts, fsType: "ext4", mode: rwo, want: untouched},
		"fits":             {of: file, mode: rwo, fits: true, want: given},
		"fits-believed":    {of: file, mode: rwo, fits: true, policy: new(corev1.FSGroupChangeOnRootMismatch), want: untouched},
		"differs-believed": {of: file, mode: rwo, policy: new(corev1.FSGroupChangeOnRootMismatch), want: given},
	}
	for name, c := range cases {
		data := c.of.in("volumes", name)
		kit.Must(t, os.MkdirAll(data+"/sub", 0o755))
		kit.Must(t, os.WriteFile(data+"/sub/file", []byte("hello"), 0o600))
		if c.fits {
			kit.Must(t, os.Chown(data, 0, 4242))
			kit.Must(t, os.Chmod(data, 0o770|os.ModeSetgid))
		}
		source := claimed(t, admin, "groups", name, func(pv *corev1.PersistentVolume) {
			pv.Spec.CSI.Driver, pv.Spec.CSI.FSType = c.of.name, c.fsType
			pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{c.mode}
		})
		source.PersistentVolumeClaim.ReadOnly = c.readOnly
		p := thirdParty(name, source)
		p.Spec.SecurityContext.FSGroupChangePolicy = c.policy
		pods.MustCreate(p)
	}
	pods.MustCreate(
		thirdParty("inline", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: exact.name, FSType: new("ext4")}}),
		thirdParty("inline-typeless", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: exact.name}}),
	)

	// then a container sees whose they are
	for name, c := range cases {
		p := pods.Await(name, "ready", kit.IsReady)
		got, err := kit.GetFromPod(t, n.Namespace, p, "/stat?path=/disk/sub/file")
		if err != nil || got != c.want {
			t.Errorf("%s: the file is %s, want %s: %v", name, got, c.want, err)
		}
		text, err := kit.GetFromPod(t, n.Namespace, p, "/file?path=/disk/sub/file")
		if readable := err == nil && text == "hello"; readable != (c.want == given) {
			t.Errorf("%s: the file can be read: %v: %v", name, readable, err)
		}
	}
	for name, want := range map[string]string{"inline": "775 0:4242", "inline-typeless": "755 0:0"} {
		if got, err := kit.GetFromPod(t, n.Namespace, pods.Await(name, "ready", kit.IsReady), "/stat?path=/disk"); err != nil || got != want {
			t.Errorf("%s: the disk is %s, want %s: %v", name, got, want, err)
		}
	}
	// and the driver that mounts for a group knew it from the first call on
	if got, want := mounts.calls(), []string{"stage mounts, group 4242", "publish mounts for , group 4242"}; !slices.Equal(got, want) {
		t.Errorf("it was asked for %q, want %q", got, want)
	}
	for _, d := range []driver{file, none, exact, silent} {
		if got := strings.Join(d.calls(), "\n"); strings.Contains(got, "group") {
			t.Errorf("%s got a group: %s", d.name, got)
		}
	}
}
