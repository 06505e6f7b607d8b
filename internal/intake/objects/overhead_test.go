package objects

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestWhatAClassCosts(t *testing.T) {
	f := newFolder(t)
	heavy := class("heavy", "vm")
	heavy.Overhead = &nodev1.Overhead{PodFixed: v1.ResourceList{v1.ResourceMemory: resource.MustParse("100Mi")}}
	f.set(t, heavy, class("light", "runc"))
	for _, c := range []struct {
		class, own, want string
	}{
		{"heavy", "", "100Mi"},
		{"heavy", "1Mi", "1Mi"},
		{"light", "", "0"},
		{"none", "", "0"},
		{"", "", "0"},
	} {
		p := podWith("p")
		if c.class != "" {
			p.Spec.RuntimeClassName = &c.class
		}
		if c.own != "" {
			p.Spec.Overhead = v1.ResourceList{v1.ResourceMemory: resource.MustParse(c.own)}
		}
		before := p.DeepCopy()
		got := f.WithOverhead(p).Spec.Overhead[v1.ResourceMemory]
		if got.Cmp(resource.MustParse(c.want)) != 0 {
			t.Errorf("%+v: %s", c, got.String())
		}
		if len(p.Spec.Overhead) != len(before.Spec.Overhead) {
			t.Error("the given pod has changed")
		}
	}
}
