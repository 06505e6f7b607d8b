package objects

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth/internal/lib/statefile"
)

// disk parses a volume: its name, its size, and further settings.
func disk(text string) *v1.PersistentVolume {
	words := strings.Fields(text)
	v := pv(words[0], "/"+words[0])
	v.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(words[1])}
	v.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany}
	for _, word := range words[2:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "class":
			v.Spec.StorageClassName = value
		case "for":
			v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: value}
		case "label":
			v.Labels = map[string]string{"label": value}
		case "node":
			v.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{value}}},
			}}}}
		case "block":
			v.Spec.VolumeMode = new(v1.PersistentVolumeBlock)
		default:
			panic(word)
		}
	}
	return v
}

// wants is a claim, likewise.
func wants(text string) *v1.PersistentVolumeClaim {
	words := strings.Fields(text)
	c := pvc(words[0], "")
	c.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(words[1])}
	c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	for _, word := range words[2:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "class":
			c.Spec.StorageClassName = &value
		case "of":
			c.Spec.VolumeName = value
		case "mode":
			c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.PersistentVolumeAccessMode(value)}
		case "label":
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"label": value}}
		default:
			panic(word)
		}
	}
	return c
}

// boundIn is a Local of a node called box. given holds lines such as "volume a 1Gi" and
// "claim c 1Gi".
func (f *folder) boundIn(t *testing.T, given, want string) {
	t.Helper()
	var objects []runtime.Object
	for line := range strings.Lines(given) {
		switch kind, rest, _ := strings.Cut(strings.TrimSpace(line), " "); kind {
		case "volume":
			objects = append(objects, disk(rest))
		case "claim":
			objects = append(objects, wants(rest))
		}
	}
	f.set(t, objects...)
	var have []string
	for _, o := range objects {
		c, ok := o.(*v1.PersistentVolumeClaim)
		if !ok {
			continue
		}
		bound, err := f.PersistentVolumeClaim(t.Context(), "default", c.Name)
		if err != nil {
			have = append(have, fmt.Sprintf("%s: %v", c.Name, err))
		} else {
			have = append(have, c.Name+"="+bound.Spec.VolumeName)
		}
	}
	if text := strings.Join(have, "\n"); text != want {
		t.Errorf("given\n%s\nhave %s\nwant %s", given, text, want)
	}
}

func newBox(t *testing.T, state string) *folder {
	t.Helper()
	f := newFolder(t)
	c := f.LocalConfig
	if state != "" {
		keeper, err := statefile.New(statefile.Config{Log: c.Log})
		must(t, err)
		c.State = keeper.FileForGood(state, "claims")
	}
	c.NodeName, c.NodeLabels = "box", func() map[string]string { return map[string]string{v1.LabelHostname: "box"} }
	l, err := NewLocal(c)
	must(t, err)
	f.Local = l
	return f
}

func TestAClaimGetsAVolumeThatFits(t *testing.T) {
	const none = "it has no volume: no persistentvolume in the manifests can be used, as for "
	for name, c := range map[string]struct{ given, want string }{
		"the smallest":         {"volume a 3Gi\nvolume b 1Gi\nvolume c 2Gi\nclaim x 1500Mi", "x=c"},
		"by name if alike":     {"volume b 1Gi\nvolume a 1Gi\nclaim x 1Gi", "x=a"},
		"each another":         {"volume a 1Gi\nvolume b 2Gi\nclaim y 1Gi\nclaim x 1Gi", "y=b\nx=a"},
		"the one that it says": {"volume a 1Gi\nvolume b 2Gi\nclaim x 1Gi of=b", "x=b"},
		"the one for it":       {"volume a 1Gi\nvolume b 2Gi for=x\nclaim x 1Gi", "x=b"},
		"said goes first":      {"volume a 1Gi\nclaim w 1Gi\nclaim x 1Gi of=a", "w: " + none + `"a": it is that of claim default/x` + "\nx=a"},
		"its class":            {"volume a 1Gi\nvolume b 2Gi class=fast\nclaim x 1Gi class=fast", "x=b"},
		"its labels":           {"volume a 1Gi\nvolume b 2Gi label=y\nclaim x 1Gi label=y", "x=b"},
		"this machine's":       {"volume a 1Gi node=other\nvolume b 2Gi node=box\nclaim x 1Gi", "x=b"},

		"no volume":      {"claim x 1Gi", "x: it has no volume: there is no persistentvolume in the manifests"},
		"too small":      {"volume a 1Gi\nclaim x 2Gi", "x: " + none + `"a": it has 1Gi, and 2Gi are wanted`},
		"other class":    {"volume a 1Gi class=slow\nclaim x 1Gi", "x: " + none + `"a": its storage class is "slow", and "" is wanted`},
		"other mode":     {"volume a 1Gi block\nclaim x 1Gi", "x: " + none + `"a": its volumeMode is Block, and Filesystem is wanted`},
		"other access":   {"volume a 1Gi\nclaim x 1Gi mode=ReadWriteMany", "x: " + none + `"a": it does not have the access mode ReadWriteMany`},
		"other labels":   {"volume a 1Gi\nclaim x 1Gi label=y", "x: " + none + `"a": its labels do not match the selector of the claim`},
		"other node":     {"volume a 1Gi node=other\nclaim x 1Gi", "x: " + none + `"a": its nodeAffinity asks for another node`},
		"another's":      {"volume a 1Gi for=y\nclaim x 1Gi", "x: " + none + `"a": its claimRef names claim default/y`},
		"said, no good":  {"volume a 1Gi\nvolume b 9Gi\nclaim x 2Gi of=a", `x: it has no volume: persistentvolume "a" can't be used: it has 1Gi, and 2Gi are wanted`},
		"said, not here": {"volume a 1Gi\nclaim x 1Gi of=b", `x: it has no volume: there is no persistentvolume "b": put it into a manifest`},
		"said by two":    {"volume a 1Gi\nclaim x 1Gi of=a\nclaim y 1Gi of=a", "x=a\n" + `y: it has no volume: persistentvolume "a" can't be used: it is that of claim default/x`},
	} {
		t.Run(name, func(t *testing.T) { newBox(t, "").boundIn(t, c.given, c.want) })
	}
}

func TestAClaimStaysWithItsVolume(t *testing.T) {
	state := filepath.Join(t.TempDir(), "claims.json")
	f := newBox(t, state)
	again := func() { f = newBox(t, state) }
	f.boundIn(t, "volume b 2Gi\nclaim y 1Gi", "y=b")
	for name, step := range map[string]func(){"while it runs": func() {}, "after a restart": again} {
		t.Run(name, func(t *testing.T) {
			step()
			f.boundIn(t, "volume b 2Gi\nvolume a 1Gi\nclaim x 1Gi\nclaim y 1Gi", "x=a\ny=b")
			step()
			// Both were edited, and would not be put together today.
			f.boundIn(t, "volume b 1Mi class=slow\nvolume a 1Gi\nclaim x 1Gi\nclaim y 2Gi", "x=a\ny=b")
			step()
			// The claim is away, and comes back. No other claim gets its data meanwhile.
			f.boundIn(t, "volume b 2Gi\nvolume a 1Gi\nclaim x 1Gi\nclaim w 1Gi",
				"x=a\nw: it has no volume: no persistentvolume in the manifests can be used, as for \"b\": it is that of claim default/y")
			step()
			f.boundIn(t, "volume b 2Gi\nvolume a 1Gi\nclaim w 1Gi\nclaim x 1Gi\nclaim y 1Gi",
				"w: it has no volume: no persistentvolume in the manifests can be used, as for \"b\": it is that of claim default/y\nx=a\ny=b")
			step()
			// The volume is away. The claim does not begin anew on another one.
			f.boundIn(t, "volume a 1Gi\nvolume c 2Gi\nclaim x 1Gi\nclaim y 1Gi",
				"x=a\ny: it has no volume: its persistentvolume \"b\" is gone: put it back into a manifest, or name another one in spec.volumeName")
			step()
			// What it asks for can't be had: what it has is still its own.
			f.boundIn(t, "volume b 2Gi\nclaim x 1Gi\nclaim y 1Gi of=nothing",
				"x: it has no volume: its persistentvolume \"a\" is gone: put it back into a manifest, or name another one in spec.volumeName\n"+
					"y: it has no volume: there is no persistentvolume \"nothing\": put it into a manifest")
			step()
			f.boundIn(t, "volume b 2Gi\nclaim y 1Gi", "y=b")
		})
	}
	info, err := os.Stat(state)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v", info.Mode())
	}
	// Who names a volume gets it, and so does a claim that a volume names.
	f.boundIn(t, "volume b 2Gi\nclaim z 1Gi of=b", "z=b")
	f.boundIn(t, "volume b 2Gi for=v\nclaim v 1Gi\nclaim z 1Gi", "v=b\nz: it has no volume: no persistentvolume in the manifests can be used, as for \"b\": it is that of claim default/v")
	// What is gone on both sides is forgotten.
	f.boundIn(t, "", "")
	f.boundIn(t, "volume b 2Gi\nclaim u 1Gi", "u=b")
}

func TestOneBadClaimCostsNoOther(t *testing.T) {
	for name, text := range map[string]string{
		"of another form": `{"version": 1, "claims": {"default/x": "b", "default/y": {"volume": "c"}}}`,
		"newer":           `{"version": 2, "more": {}, "claims": {"default/x": "b"}}`,
	} {
		state := filepath.Join(t.TempDir(), "claims.json")
		must(t, os.WriteFile(state, []byte(text), 0o600))
		f := newBox(t, state)
		f.boundIn(t, "volume a 1Gi\nvolume b 1Gi\nclaim x 1Gi", "x=b")
		if kept, err := os.ReadFile(state + ".corrupt"); err != nil || string(kept) != text {
			t.Errorf("%s: set aside: %q, %v", name, kept, err)
		}
		newBox(t, state).boundIn(t, "volume a 1Gi\nvolume b 1Gi\nclaim x 1Gi", "x=b")
	}
}

func TestACorruptMemoryOfClaims(t *testing.T) {
	for _, text := range []string{"", "{", `{"version": 7}`, `{"version": 1, "claims": []}`} {
		state := filepath.Join(t.TempDir(), "claims.json")
		must(t, os.WriteFile(state, []byte(text), 0o600))
		newBox(t, state).boundIn(t, "volume a 1Gi\nclaim x 1Gi", "x=a")
		if kept, err := os.ReadFile(state + ".corrupt"); err != nil || string(kept) != text {
			t.Errorf("set aside: %q, %v", kept, err)
		}
	}
}
