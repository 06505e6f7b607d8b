package admit

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestWhatConfinesNeedsItsMachine(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*v1.PodSpec)
		want string
	}{
		"nothing said": {func(*v1.PodSpec) {}, ""},
		"the pod is confined": {func(s *v1.PodSpec) {
			s.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}}
		}, "AppArmor"},
		"a container is": {func(s *v1.PodSpec) {
			s.Containers[0].SecurityContext = &v1.SecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost}}
		}, "AppArmor"},
		"an init container is": {func(s *v1.PodSpec) {
			s.InitContainers = []v1.Container{{Name: "i", SecurityContext: &v1.SecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}}}}
		}, "AppArmor"},
		"said not to be": {func(s *v1.PodSpec) {
			s.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}}
		}, ""},
		"the pod is labelled": {func(s *v1.PodSpec) {
			s.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Type: "spc_t"}}
		}, ""},
		"a debug container is": {func(s *v1.PodSpec) {
			s.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
				Name: "e", SecurityContext: &v1.SecurityContext{SELinuxOptions: &v1.SELinuxOptions{Level: "s0:c1,c2"}},
			}}}
		}, ""},
		"strict groups": {func(s *v1.PodSpec) {
			s.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: new(v1.SupplementalGroupsPolicyStrict)}
		}, "SupplementalGroupsPolicyNotSupported"},
		"merged groups": {func(s *v1.PodSpec) {
			s.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: new(v1.SupplementalGroupsPolicyMerge)}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod("web")
			test.edit(&p.Spec)
			if got := Check(p, nil, Node{}); reason(got) != test.want {
				t.Errorf("on a machine that has none of it: %+v", got)
			}
			if got := Check(p, nil, Node{AppArmor: true, StrictGroups: true}); got != nil {
				t.Errorf("on a machine that has all: %+v", got)
			}
		})
	}
}
