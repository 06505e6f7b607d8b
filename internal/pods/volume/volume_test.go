package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth/internal/lib/pod"
	"berth/internal/lib/volumekind"
)

func TestNewNamesMissingFields(t *testing.T) {
	_, err := New(Config{})
	for _, want := range []string{"directory of pods", "source of objects", "nothing that mounts", "CSI", "images", "no name", "labels", "log"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell of %q", err, want)
		}
	}
}

func configMapVolume(name string) v1.VolumeSource {
	return v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}}
}

func secretVolume(name string) v1.VolumeSource {
	return v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: name}}
}

func TestConfigMap(t *testing.T) {
	w := newWorld(t)
	w.objects.configMaps["cfg"] = &v1.ConfigMap{Data: map[string]string{"a": "1", "b": "2"}, BinaryData: map[string][]byte{"c": {0, 1}}}
	p := podWith(configMapVolume("cfg"))

	w.setup(p)

	dir := w.dir(p)
	w.must(dir, map[string]string{"a": "1", "b": "2", "c": "\x00\x01"})
	if want := filepath.Join("u-1", "volumes", "kubernetes.io~configmap", "vol"); !strings.HasSuffix(dir, want) {
		t.Errorf("%s does not end in %s", dir, want)
	}
	if m := mode(t, filepath.Join(dir, "a")); m != 0o644 {
		t.Error(m)
	}
	if m := mode(t, dir).Perm(); m != 0o777 {
		t.Error(m)
	}
}

func TestAChangeIsWrittenAndNothingElse(t *testing.T) {
	w := newWorld(t)
	w.objects.configMaps["cfg"] = &v1.ConfigMap{Data: map[string]string{"a": "1", "b": "2"}}
	p := podWith(configMapVolume("cfg"))
	w.setup(p)
	dir := w.dir(p)
	before, err := os.Readlink(filepath.Join(dir, "..data"))
	if err != nil {
		t.Fatal(err)
	}

	w.restart()
	w.setup(p)

	if after, _ := os.Readlink(filepath.Join(dir, "..data")); after != before {
		t.Errorf("written again: %s, then %s", before, after)
	}

	w.objects.configMaps["cfg"] = &v1.ConfigMap{Data: map[string]string{"b": "3", "new": "4"}}
	w.setup(p)

	w.must(dir, map[string]string{"b": "3", "new": "4"})
	if after, _ := os.Readlink(filepath.Join(dir, "..data")); after == before {
		t.Error("the content was changed in place")
	}
	if _, err := os.Lstat(filepath.Join(dir, before)); !os.IsNotExist(err) {
		t.Error("the old content is still there", err)
	}
}

func TestItemsAndModes(t *testing.T) {
	w := newWorld(t)
	w.objects.secrets["s"] = &v1.Secret{Data: map[string][]byte{"key": []byte("k"), "cert": []byte("c"), "rest": []byte("r")}}
	source := secretVolume("s")
	source.Secret.DefaultMode = new(int32(0o400))
	source.Secret.Items = []v1.KeyToPath{
		{Key: "key", Path: "tls/private/key.pem"},
		{Key: "cert", Path: "tls/cert.pem", Mode: new(int32(0o444))},
	}
	p := withGroup(podWith(source), someGroup())

	w.setup(p)

	dir := w.dir(p)
	w.must(dir, map[string]string{"tls/private/key.pem": "k", "tls/cert.pem": "c"})
	if m := mode(t, filepath.Join(dir, "tls/private/key.pem")); m != 0o440 {
		t.Error("the group can't read:", m)
	}
	if m := mode(t, filepath.Join(dir, "tls/cert.pem")); m != 0o444 {
		t.Error(m)
	}
	info, err := os.Stat(filepath.Join(dir, "tls/private/key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if _, gid := owner(info); gid != int(someGroup()) {
		t.Error("group", gid)
	}
	if len(w.mounter.done) != 1 || !strings.HasPrefix(w.mounter.done[0], "tmpfs vol mode=2777,gid=") {
		t.Error("a secret is not held in memory:", w.mounter.done)
	}
}

func TestMissingObjectsAndKeys(t *testing.T) {
	w := newWorld(t)
	w.objects.configMaps["cfg"] = &v1.ConfigMap{Data: map[string]string{"a": "1"}}
	badKey := configMapVolume("cfg")
	badKey.ConfigMap.Items = []v1.KeyToPath{{Key: "b", Path: "b"}}
	for says, source := range map[string]v1.VolumeSource{
		`volume "vol": configmap "none" not found`:          configMapVolume("none"),
		`volume "vol": secret "none" not found`:             secretVolume("none"),
		`volume "vol": configmap "cfg" has no key "b"`:      badKey,
		`volume "vol": persistentvolumeclaim "c" not found`: claimVolume("c"),
	} {
		err := w.failure(podWith(source), says)
		if !errors.Is(err, ErrMissing) {
			t.Errorf("%v is taken for another", err)
		}
		if strings.Contains(says, "not found") != apierrors.IsNotFound(err) {
			t.Errorf("IsNotFound(%v) is %v", err, apierrors.IsNotFound(err))
		}
		if usable(err) {
			t.Error("a volume that never was is said to be usable")
		}
	}
}

func TestOptionalObjectsAndKeys(t *testing.T) {
	w := newWorld(t)
	w.objects.configMaps["cfg"] = &v1.ConfigMap{Data: map[string]string{"a": "1"}}
	absent := configMapVolume("none")
	absent.ConfigMap.Optional = new(true)
	noKey := configMapVolume("cfg")
	noKey.ConfigMap.Optional = new(true)
	noKey.ConfigMap.Items = []v1.KeyToPath{{Key: "b", Path: "b"}, {Key: "a", Path: "x"}}
	p := podWith(absent)
	w.setup(p)
	w.must(w.dir(p), nil)

	w.objects.configMaps["none"] = &v1.ConfigMap{Data: map[string]string{"late": "yes"}}
	w.setup(p)
	w.must(w.dir(p), map[string]string{"late": "yes"})

	q := podWith(noKey)
	q.UID = "u-2"
	w.setup(q)
	w.must(w.dir(q), map[string]string{"x": "1"})
}

func TestAnObjectThatVanishesLeavesItsContent(t *testing.T) {
	w := newWorld(t)
	w.objects.configMaps["cfg"] = &v1.ConfigMap{Data: map[string]string{"a": "1"}}
	p := podWith(configMapVolume("cfg"))
	w.setup(p)
	delete(w.objects.configMaps, "cfg")
	w.restart()

	err := w.failure(p, "not found")

	if !usable(err) {
		t.Error("the volume can still be used")
	}
	w.must(w.dir(p), map[string]string{"a": "1"})
}

func TestEveryKindCanBeSetUp(t *testing.T) {
	for _, k := range volumekind.All() {
		if kinds()[k].setup == nil {
			t.Errorf("%s can't be set up", k)
		}
	}
	if len(kinds()) != len(volumekind.All()) {
		t.Error("a kind that is not in the table can be set up")
	}
}

func TestOneBadVolumeDoesNotHinderTheOthers(t *testing.T) {
	w := newWorld(t)
	p := podWith(configMapVolume("none"))
	p.Spec.Volumes = append(p.Spec.Volumes,
		v1.Volume{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		v1.Volume{Name: "odd", VolumeSource: v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{}}},
		v1.Volume{Name: "unused", VolumeSource: secretVolume("none")})
	c := &p.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "scratch", MountPath: "/s"}, v1.VolumeMount{Name: "odd", MountPath: "/o"})

	err := w.failure(p, `volume "odd": iscsi is not supported: use a PersistentVolume of the CSI driver iscsi.csi.k8s.io`)

	if !strings.Contains(err.Error(), `configmap "none" not found; `) || strings.Contains(err.Error(), "unused") {
		t.Error(err)
	}
	c.VolumeMounts = c.VolumeMounts[1:2]
	if _, err := os.Stat(w.dir(p)); err != nil {
		t.Error(err)
	}
}

func TestAnObjectThatIsTooLargeIsRefused(t *testing.T) {
	w := newWorld(t)
	w.objects.configMaps["cfg"] = &v1.ConfigMap{Data: map[string]string{"a": strings.Repeat("x", 600_000), "b": strings.Repeat("y", 600_000)}}
	w.setupFails(podWith(configMapVolume("cfg")), "1048576 is the most")
}

func TestDownwardAPI(t *testing.T) {
	w := newWorld(t)
	p := podWith(v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
		{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
		{Path: "ip", FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}},
		{Path: "memory", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "app", Resource: "limits.memory"}, Mode: new(int32(0o600))},
	}}})
	w.setup(p)
	w.must(w.dir(p), map[string]string{"labels": `app="web"`, "ip": "10.1.0.2", "memory": "8589934592"})

	p = p.DeepCopy()
	p.Labels["app"] = "shop"
	w.setup(p)
	w.must(w.dir(p), map[string]string{"labels": `app="shop"`, "ip": "10.1.0.2", "memory": "8589934592"})

	p.Spec.Volumes[0].DownwardAPI.Items[0].FieldRef.FieldPath = "spec.secrets"
	w.setupFails(p, `file "labels": field "spec.secrets" is not one`)
}

func TestProjected(t *testing.T) {
	w := newWorld(t)
	w.objects.configMaps["ca"] = &v1.ConfigMap{Data: map[string]string{"ca.crt": "CA"}}
	w.objects.secrets["s"] = &v1.Secret{Data: map[string][]byte{"pass": []byte("word")}}
	w.objects.token = "token"
	w.objects.refreshAt = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	p := podWith(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", Audience: "vault", ExpirationSeconds: new(int64(600))}},
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "ca"}}},
		{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "s"}}},
		{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{
			{Path: "meta/namespace", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.namespace"}},
		}}},
	}}})
	uid := int64(os.Getuid())
	p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{RunAsUser: &uid}

	due := w.setup(p)

	w.must(w.dir(p), map[string]string{"token": `token for "vault", 600 s`, "ca.crt": "CA", "pass": "word", "meta/namespace": "shop"})
	if m := mode(t, filepath.Join(w.dir(p), "token")); m != 0o600 {
		t.Error("others can read the token:", m)
	}
	if !due.Equal(w.objects.refreshAt) {
		t.Error("due", due)
	}
	if len(w.mounter.done) != 1 || !strings.HasPrefix(w.mounter.done[0], "tmpfs vol mode=0777") {
		t.Error("a token is not held in memory:", w.mounter.done)
	}

	w.objects.tokenError = errors.New("no server")
	if err := w.failure(p, "get a token of the service account: no server"); !usable(err) || errors.Is(err, ErrMissing) {
		t.Error(err)
	}
}

func TestProjectedSourcesThatAreNotSupported(t *testing.T) {
	w := newWorld(t)
	for says, source := range map[string]v1.VolumeProjection{
		"a podCertificate needs a cluster": {PodCertificate: &v1.PodCertificateProjection{}},
		"of no kind that is supported":     {},
	} {
		w.setupFails(podWith(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{source}}}), says)
	}
}

func TestABadUIDNamesNoDirectory(t *testing.T) {
	w := newWorld(t)
	for _, uid := range []pod.UID{"", "..", ".", "a/b", "../x", "a\x00"} {
		p := podWith(configMapVolume("x"))
		p.UID = uid
		w.setupFails(p, "UID")
		if err := w.m.Teardown(context.Background(), uid); err == nil {
			t.Errorf("%q is taken down", uid)
		}
	}
}
