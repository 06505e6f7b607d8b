package downward

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func somePod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "shop", UID: "u-1",
			Labels:      map[string]string{"tier": "front", "app": "web"},
			Annotations: map[string]string{"note": "two\nlines", "a/b": `say "hi"`},
		},
		Spec: v1.PodSpec{
			ServiceAccountName: "robot",
			Containers: []v1.Container{
				{Name: "app", Resources: v1.ResourceRequirements{
					Requests: list("cpu", "250m", "memory", "32Mi", "hugepages-2Mi", "4Mi"),
					Limits:   list("cpu", "1500m", "memory", "64Mi", "hugepages-2Mi", "4Mi"),
				}},
				{Name: "free"},
			},
			InitContainers: []v1.Container{{Name: "init", Resources: v1.ResourceRequirements{Limits: list("memory", "1Gi")}}},
		},
	}
}

func list(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func TestValue(t *testing.T) {
	facts := Facts{NodeName: "box", HostIPs: []string{"10.0.0.1", "fd00::1"}, PodIPs: []string{"10.1.0.2", "fd01::2"}}
	for path, want := range map[string]string{
		"metadata.name":                "web",
		"metadata.namespace":           "shop",
		"metadata.uid":                 "u-1",
		"metadata.labels":              "app=\"web\"\ntier=\"front\"",
		"metadata.annotations":         "a/b=\"say \\\"hi\\\"\"\nnote=\"two\\nlines\"",
		"metadata.labels['app']":       "web",
		"metadata.labels['none']":      "",
		"metadata.annotations['note']": "two\nlines",
		"metadata.annotations['a/b']":  `say "hi"`,
		"spec.nodeName":                "box",
		"spec.serviceAccountName":      "robot",
		"status.hostIP":                "10.0.0.1",
		"status.hostIPs":               "10.0.0.1,fd00::1",
		"status.podIP":                 "10.1.0.2",
		"status.podIPs":                "10.1.0.2,fd01::2",
	} {
		got, err := Value(somePod(), path, facts)
		if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
}

func TestAddressesAreEmptyUntilKnown(t *testing.T) {
	for _, path := range []string{"status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs"} {
		if got, err := Value(somePod(), path, Facts{}); got != "" || err != nil {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

func TestUnknownFieldsAreRefused(t *testing.T) {
	for _, path := range []string{"", "metadata", "spec.containers", "spec.nodeName['a']", "metadata.labels['']", "metadata.labels['a'", "metadata.labels[a]"} {
		if got, err := Value(somePod(), path, Facts{}); err == nil {
			t.Errorf("%q is taken, as %q", path, got)
		}
	}
}

func TestResource(t *testing.T) {
	allocatable := list("cpu", "4", "memory", "8Gi", "ephemeral-storage", "100Gi", "hugepages-2Mi", "1Gi")
	for _, c := range []struct{ container, resource, divisor, want string }{
		{"app", "requests.cpu", "", "1"},
		{"app", "requests.cpu", "1m", "250"},
		{"app", "limits.cpu", "", "2"},
		{"app", "limits.cpu", "1m", "1500"},
		{"app", "limits.memory", "", "67108864"},
		{"app", "limits.memory", "1Mi", "64"},
		{"app", "limits.memory", "1M", "68"},
		{"app", "requests.hugepages-2Mi", "1Mi", "4"},
		{"app", "limits.hugepages-2Mi", "1Mi", "4"},
		{"app", "requests.ephemeral-storage", "", "0"},
		{"free", "requests.memory", "", "0"},
		{"free", "limits.cpu", "", "4"},
		{"free", "limits.memory", "1Gi", "8"},
		{"free", "limits.ephemeral-storage", "1Gi", "100"},
		{"free", "limits.hugepages-2Mi", "", "0"},
		{"init", "limits.memory", "1Gi", "1"},
	} {
		ref := &v1.ResourceFieldSelector{Resource: c.resource}
		if c.divisor != "" {
			ref.Divisor = resource.MustParse(c.divisor)
		}
		got, err := Resource(somePod(), ref, c.container, allocatable)
		if err != nil || got != c.want {
			t.Errorf("%s %s in %q: %s, %v; want %s", c.container, c.resource, c.divisor, got, err, c.want)
		}
	}
}

func TestThePodLimitsAContainerWithoutALimit(t *testing.T) {
	p := somePod()
	p.Spec.Resources = &v1.ResourceRequirements{Limits: list("memory", "1Gi")}
	got, err := Resource(p, &v1.ResourceFieldSelector{Resource: "limits.memory", ContainerName: "free"}, "app", list("memory", "8Gi"))
	if err != nil || got != "1073741824" {
		t.Error(got, err)
	}
}

func TestResourcesAsLargeAsTheyGetAreCounted(t *testing.T) {
	got, err := Resource(somePod(), &v1.ResourceFieldSelector{Resource: "limits.memory"}, "free", list("memory", "7Ei"))
	if err != nil || got != "8070450532247928832" {
		t.Error(got, err)
	}
	ref := &v1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Ei")}
	got, err = Resource(somePod(), ref, "free", list("memory", "7Ei"))
	if err != nil || got != "7" {
		t.Error(got, err)
	}
}

func TestBadResourcesAreRefused(t *testing.T) {
	for _, c := range []struct{ container, resource, divisor, says string }{
		{"nobody", "limits.cpu", "1", `no container "nobody"`},
		{"app", "limits.disk", "1", "not one that a container can be given"},
		{"app", "cpu", "1", "not one that a container can be given"},
		{"app", "wishes.cpu", "1", "neither requests nor limits"},
		{"app", "limits.cpu", "-1", "negative"},
	} {
		_, err := Resource(somePod(), &v1.ResourceFieldSelector{Resource: c.resource, Divisor: resource.MustParse(c.divisor)}, c.container, nil)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c, err)
		}
	}
}
