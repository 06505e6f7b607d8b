//go:build real

package pods

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/real/kit"
)

// claimOf is a persistent volume of the folder, and the claim of the same name for it.
func claimOf(name string, source v1.PersistentVolumeSource) (*v1.PersistentVolume, *v1.PersistentVolumeClaim) {
	size, once := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Mi")}, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	pv := &v1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{Capacity: size, AccessModes: once, PersistentVolumeSource: source},
	}
	claim := &v1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeClaimSpec{AccessModes: once, VolumeName: name, Resources: v1.VolumeResourceRequirements{Requests: size}},
	}
	return pv, claim
}

func TestAVolumeIsGivenToTheGroupIfItHasToBe(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	const (
		group           = 4242
		untouched, gave = "600 0:0", "660 0:4242"
	)
	local := func(dir string) v1.PersistentVolumeSource {
		return v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: dir}}
	}
	host := func(dir string) v1.PersistentVolumeSource {
		return v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}
	}
	lazy, always := new(v1.FSGroupChangeOnRootMismatch), new(v1.FSGroupChangeAlways)

	// given volumes with a file that is root's alone, some of which have a root that fits
	cases := map[string]struct {
		kind     func(dir string) v1.PersistentVolumeSource
		owner    int         // of the root: a group
		mode     os.FileMode // of the root
		policy   *v1.PodFSGroupChangePolicy
		readOnly bool
		want     string
	}{
		"fits-lazy":      {kind: local, owner: group, mode: 0o770 | os.ModeSetgid, policy: lazy, want: untouched},
		"fits-more-lazy": {kind: local, owner: group, mode: 0o777 | os.ModeSetgid, policy: lazy, want: untouched},
		"fits-always":    {kind: local, owner: group, mode: 0o770 | os.ModeSetgid, policy: always, want: gave},
		"fits-unsaid":    {kind: local, owner: group, mode: 0o770 | os.ModeSetgid, want: gave},
		"group-lazy":     {kind: local, owner: 0, mode: 0o770 | os.ModeSetgid, policy: lazy, want: gave},
		"mode-lazy":      {kind: local, owner: group, mode: 0o750 | os.ModeSetgid, policy: lazy, want: gave},
		"setgid-lazy":    {kind: local, owner: group, mode: 0o770, policy: lazy, want: gave},
		"readonly":       {kind: local, owner: 0, mode: 0o755, policy: always, readOnly: true, want: untouched},
		"host":           {kind: host, owner: 0, mode: 0o755, policy: always, want: untouched},
	}
	var objects []any
	var names []string
	for name, c := range cases {
		dir := filepath.Join(n.Dir, "disks", name)
		sub := filepath.Join(dir, "sub")
		mustMake(n, sub, "file")
		if err := os.Chmod(filepath.Join(sub, "file"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, 0, c.owner); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		pv, claim := claimOf(name, c.kind(dir))
		p := kit.ReadablePod(name)
		p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(group)), FSGroupChangePolicy: c.policy}
		kit.AddVolume(p, "/vol", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name, ReadOnly: c.readOnly}})
		objects, names = append(objects, pv, claim, p), append(names, name)
	}
	n.ApplyObjects("all.yaml", objects...)
	n.Start()

	// then a container sees whose the file is
	for name, p := range n.WaitRunning(names...) {
		if got, want := serves(n, p, "/stat?path=/vol/sub/file"), cases[name].want; got != want {
			t.Errorf("%s: the file is %s, want %s", name, got, want)
		}
	}
}
