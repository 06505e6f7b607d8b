package objects

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth/internal/lib/pod"
)

// folder is a Local, and the pods that were enqueued since the last take.
type folder struct {
	*Local
	enqueued []string
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	f := &folder{}
	l, err := NewLocal(LocalConfig{Log: slog.New(slog.DiscardHandler), Enqueue: func(_ context.Context, uid pod.UID) {
		f.enqueued = append(f.enqueued, string(uid))
	}})
	must(t, err)
	f.Local = l
	return f
}

func (f *folder) set(t *testing.T, objects ...runtime.Object) string {
	t.Helper()
	f.enqueued = nil
	f.Set(t.Context(), objects)
	return strings.Join(f.enqueued, " ")
}

func pvc(name, volume string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       v1.PersistentVolumeClaimSpec{VolumeName: volume},
	}
}

func pv(name, path string) *v1.PersistentVolume {
	return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path}},
	}}
}

func podOfClaim(uid, claim string) *v1.Pod {
	p := podWith(uid)
	p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	return p
}

func TestTheFolderHasWhatWasPutThere(t *testing.T) {
	f := newFolder(t)
	given := pvc("claim", "")
	f.set(t, configMapOf("c", "1"), secretOf("s", "1"), given, pv("v", "/data"), class("gvisor", "runsc"), &v1.Pod{})

	secret, err := f.Secret(t.Context(), "default", "s")
	must(t, err)
	if string(secret.Data["key"]) != "1" {
		t.Errorf("have %v", secret)
	}
	if given.Spec.VolumeName != "" {
		t.Error("the given object was written to")
	}
	c, err := f.ConfigMap(t.Context(), "default", "c")
	must(t, err)
	claim, err := f.PersistentVolumeClaim(t.Context(), "default", "claim")
	must(t, err)
	volume, err := f.PersistentVolume(t.Context(), "v")
	must(t, err)
	class, err := f.RuntimeClass(t.Context(), "gvisor")
	must(t, err)
	if c.Data["key"] != "1" || claim.Spec.VolumeName != "v" || volume.Spec.HostPath.Path != "/data" || class.Handler != "runsc" {
		t.Errorf("have %v %v %v %v", c, claim, volume, class)
	}
	if services, err := f.Services(t.Context(), "default"); len(services) > 0 || err != nil {
		t.Errorf("have %v, %v", services, err)
	}
}

func TestWhatTheFolderLacksIsSaidClearly(t *testing.T) {
	f := newFolder(t)
	wants := func(err error, want string) {
		t.Helper()
		if !apierrors.IsNotFound(err) || err.Error() != want {
			t.Errorf("have %v, want %s", err, want)
		}
	}
	_, err := f.ConfigMap(t.Context(), "shop", "c")
	wants(err, `configmap "c" not found: put it into a manifest, in namespace shop`)
	_, err = f.Secret(t.Context(), "shop", "s")
	wants(err, `secret "s" not found: put it into a manifest, in namespace shop`)
	_, err = f.RuntimeClass(t.Context(), "gvisor")
	wants(err, `runtimeclass "gvisor" not found: put it into a manifest`)
	_, err = f.PersistentVolumeClaim(t.Context(), "shop", "c")
	wants(err, `persistentvolumeclaim "c" not found: put it into a manifest, in namespace shop`)
	_, err = f.PersistentVolume(t.Context(), "v")
	wants(err, `persistentvolume "v" not found: put it into a manifest`)
	_, err = f.ServiceAccount(t.Context(), "shop", "robot")
	wants(err, `serviceaccount "robot" not found: service accounts need a cluster`)
	if _, _, _, err := f.Token(t.Context(), podWith("p"), "", 0); err == nil || !strings.Contains(err.Error(), "needs a cluster") {
		t.Errorf("have %v", err)
	}
}

func TestAnEditedFolderNotifiesThePodsThatReferToIt(t *testing.T) {
	f := newFolder(t)
	ofClass := podWith("class")
	ofClass.Spec.RuntimeClassName = new("gvisor")
	f.Register(podWith("map", "c", "missing"))
	f.Register(podWith("secret", "s"))
	f.Register(podOfClaim("claim", "mine"))
	f.Register(podOfClaim("other", "open"))
	f.Register(ofClass)
	f.Register(podWith("gone", "c"))
	f.Unregister("gone")

	base := func() []runtime.Object {
		return []runtime.Object{configMapOf("c", "1"), secretOf("s", "1"), pvc("mine", "v"), pvc("open", ""), pv("v", "/one"), pv("w", "/one"), class("gvisor", "runsc")}
	}
	if enqueued := f.set(t, base()...); enqueued != "claim class map other secret" {
		t.Errorf("enqueued were %q", enqueued)
	}
	for want, change := range map[string]func([]runtime.Object) []runtime.Object{
		"": func(all []runtime.Object) []runtime.Object {
			return append(all, configMapOf("unused", "1"), secretOf("c", "1"))
		},
		"map": func(all []runtime.Object) []runtime.Object {
			return append(all, configMapOf("missing", "1"))
		},
		"secret": func(all []runtime.Object) []runtime.Object {
			return append(all, secretOf("s", "2"))
		},
		"class": func(all []runtime.Object) []runtime.Object {
			return append(all, class("gvisor", "other"))
		},
		"other": func(all []runtime.Object) []runtime.Object {
			return append(all, pv("w", "/two"))
		},
		"claim": func(all []runtime.Object) []runtime.Object {
			return append(all, pv("v", "/two"))
		},
		"claim other": func(all []runtime.Object) []runtime.Object {
			return append(all, pvc("mine", "w"))
		},
		"claim class map secret": func(all []runtime.Object) []runtime.Object {
			return all[3:6:6]
		},
	} {
		f.set(t, base()...)
		if enqueued := f.set(t, change(base())...); enqueued != want {
			t.Errorf("enqueued were %q, want %q", enqueued, want)
		}
	}
}
