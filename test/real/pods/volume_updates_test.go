//go:build real

package pods

import (
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/test/fixture"
	"berth/test/real/kit"
)

func TestVolumesFollowTheFolderWithinASecond(t *testing.T) {
	t.Parallel()
	// given a pod that has a ConfigMap and a Secret of the folder as volumes: each by
	// itself, and both in one
	n := kit.NewNode(t)
	web := kit.NewPod("web", "serve", ":7070")
	settings, key := v1.LocalObjectReference{Name: "settings"}, v1.LocalObjectReference{Name: "key"}
	kit.AddVolume(web, "/map", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: settings}})
	kit.AddVolume(web, "/secret", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: key.Name}})
	kit.AddVolume(web, "/all", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: settings}}, {Secret: &v1.SecretProjection{LocalObjectReference: key}},
	}}})
	n.Apply("web.yaml", web)
	set := map[string]func(value string){
		"configmap": func(value string) { n.ApplyObjects("settings.yaml", kit.NewConfigMap(settings.Name, value)) },
		"secret": func(value string) {
			s := kit.NewSecret(key.Name)
			s.StringData["word"] = value
			n.ApplyObjects("key.yaml", s)
		},
	}
	for _, f := range set {
		f("first")
	}
	n.Start()
	p := n.WaitRunning("web")["web"]
	before := n.Instances(map[string]v1.Pod{"web": p})

	for what, paths := range map[string][]string{
		"configmap": {"kubernetes.io~configmap/map/colour", "kubernetes.io~projected/all/colour"},
		"secret":    {"kubernetes.io~secret/secret/word", "kubernetes.io~projected/all/word"},
	} {
		// when the file of the object is replaced, then the volumes show it
		for i, path := range paths {
			paths[i] = filepath.Join(n.Root, "pods", string(p.UID), "volumes", path)
		}
		value := fixture.MustFollow(t, what, set[what], paths...)

		// to the container as well
		for _, path := range paths {
			volume, key := filepath.Split(path)
			if got := n.ReadFile(p, "/"+filepath.Base(volume)+"/"+key); got != value {
				t.Errorf("in the container, %s of volume %s holds %q, not %q", key, volume, got, value)
			}
		}
	}

	// and nothing is restarted for it
	n.MustKeepInstances(before)
}
