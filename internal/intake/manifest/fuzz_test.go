package manifest

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"berth/internal/lib/pod"
)

// Whatever bytes come in, Parse returns, and a pod or object that it lets through has
// names and keys that are safe as parts of a path, and is the same when it is read
// again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		small, everyKind,
		"{\"apiVersion\":\"v1\",\"kind\":\"PodList\",\"items\":[{\"metadata\":{\"name\":\"a\",\"uid\":\"u\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}]}",
		"a: &a [*a]\n---\n- b\n--- {<<: [{}, *a]}\n",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: ../x, uid: ..}\nspec: {volumes: [{name: v, secret: {secretName: s, items: [{key: k, path: p, mode: 0644}]}}], containers: [{name: a, image: b, volumeMounts: [{name: v, mountPath: /x}], resources: {limits: {cpu: 1}}, livenessProbe: {httpGet: {port: p}}}]}\n",
		"\xff\xfe", "\xef\xbb\xbf{}", "'", "? [a]\n: b\n", "!!binary x",
	} {
		f.Add([]byte(text))
	}
	safe := regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	f.Fuzz(func(t *testing.T, data []byte) {
		r := Parse(data)
		for _, p := range r.Problems {
			if p.Line < 1 || p.Message == "" {
				t.Errorf("a problem without line or message: %+v", p)
			}
		}
		for _, p := range r.Pods {
			p, err := Static(p, "node", pod.SourceFile, "origin")
			if err != nil {
				t.Fatal(err)
			}
			checkNames(t, safe, p)
			raw, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			again := Parse(raw)
			if len(again.Pods) != 1 || again.Pods[0].UID != p.UID || again.Pods[0].Name != p.Name {
				t.Errorf("read again: %q", formatProblems(again.Problems))
			}
		}
		for _, o := range r.Objects {
			checkObject(t, safe, o)
			raw, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			again := Parse(raw)
			if len(again.Objects) != 1 || !equality.Semantic.DeepEqual(again.Objects[0], o) {
				t.Errorf("read again: %q\n%s", formatProblems(again.Problems), raw)
			}
		}
	})
}

func checkObject(t *testing.T, safe *regexp.Regexp, o Object) {
	t.Helper()
	names := []string{o.GetName()}
	if o.GetNamespace() != "" {
		names = append(names, o.GetNamespace())
	}
	for _, name := range names {
		if !safe.MatchString(name) || len(name) > 253 {
			t.Errorf("unsafe name %q", name)
		}
	}
	var keys []string
	switch o := o.(type) {
	case *v1.ConfigMap:
		keys = slices.AppendSeq(slices.Collect(maps.Keys(o.Data)), maps.Keys(o.BinaryData))
	case *v1.Secret:
		keys = slices.Collect(maps.Keys(o.Data))
	case *v1.PersistentVolume:
		if o.Spec.Local != nil && !filepath.IsAbs(o.Spec.Local.Path) {
			t.Errorf("unsafe path %q", o.Spec.Local.Path)
		}
	}
	for _, key := range keys {
		if !filepath.IsLocal(key) || key != filepath.Base(key) {
			t.Errorf("unsafe key %q", key)
		}
	}
}

func checkNames(t *testing.T, safe *regexp.Regexp, p *v1.Pod) {
	t.Helper()
	names := []string{p.Name, p.Namespace, string(p.UID)}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, c := range list {
			names = append(names, c.Name)
		}
	}
	for _, v := range p.Spec.Volumes {
		names = append(names, v.Name)
		if v.Secret != nil {
			for _, item := range v.Secret.Items {
				if !filepath.IsLocal(item.Path) {
					t.Errorf("unsafe path %q", item.Path)
				}
			}
		}
	}
	for _, name := range names {
		if !safe.MatchString(name) || len(name) > 253 {
			t.Errorf("unsafe name %q", name)
		}
	}
}
