package render

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestRunAsNonRoot(t *testing.T) {
	must, may := new(true), new(false)
	for name, test := range map[string]struct {
		pod   *v1.PodSecurityContext
		own   *v1.SecurityContext
		image *User
		want  string
	}{
		"nobody cares":                    {nil, nil, nil, ""},
		"the pod says who":                {&v1.PodSecurityContext{RunAsNonRoot: must, RunAsUser: new(int64(1))}, nil, nil, ""},
		"the container says who":          {&v1.PodSecurityContext{RunAsNonRoot: must, RunAsUser: new(int64)}, &v1.SecurityContext{RunAsUser: new(int64(1))}, nil, ""},
		"the container may be":            {&v1.PodSecurityContext{RunAsNonRoot: must}, &v1.SecurityContext{RunAsNonRoot: may}, nil, ""},
		"root, said by name":              {&v1.PodSecurityContext{RunAsNonRoot: must, RunAsUser: new(int64)}, nil, nil, "container's runAsUser breaks non-root policy"},
		"the image says a number":         {nil, &v1.SecurityContext{RunAsNonRoot: must}, &User{UID: new(int64(7))}, ""},
		"the image says root":             {nil, &v1.SecurityContext{RunAsNonRoot: must}, &User{UID: new(int64)}, "container has runAsNonRoot and image will run as root"},
		"the image says nothing":          {nil, &v1.SecurityContext{RunAsNonRoot: must}, &User{}, "container has runAsNonRoot and image will run as root"},
		"the image says a name":           {nil, &v1.SecurityContext{RunAsNonRoot: must}, &User{Name: "www"}, "container has runAsNonRoot and image has non-numeric user (www), cannot verify user is non-root"},
		"the container says that it must": {&v1.PodSecurityContext{RunAsNonRoot: may}, &v1.SecurityContext{RunAsNonRoot: must}, &User{}, "will run as root"},
	} {
		t.Run(name, func(t *testing.T) {
			p := webPod()
			c := &p.Spec.Containers[0]
			p.Spec.SecurityContext, c.SecurityContext = test.pod, test.own
			if asked := NeedsUser(p, c); asked != (test.image != nil) {
				t.Errorf("the image is asked: %t", asked)
			}
			err := CheckNonRoot(p, c, test.image)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), `(pod: "web_shop(uid-1)", container: app)`)):
				t.Errorf("got %v", err)
			}
		})
	}
}

// A runtime refuses a group that comes without a user.
func TestAGroupComesWithTheUserOfTheImage(t *testing.T) {
	p := webPod()
	c := &p.Spec.Containers[0]
	c.SecurityContext = &v1.SecurityContext{RunAsGroup: new(int64(9))}
	if !NeedsUser(p, c) {
		t.Fatal("the image is not asked")
	}
	for name, test := range map[string]struct {
		image User
		user  *runtimeapi.Int64Value
		named string
	}{
		"a number": {User{UID: new(int64(7))}, &runtimeapi.Int64Value{Value: 7}, ""},
		"a name":   {User{Name: "www"}, nil, "www"},
		"nothing":  {User{}, &runtimeapi.Int64Value{}, ""},
	} {
		got, err := security(p, c, Resolved{User: &test.image}, node)
		if err != nil || got.RunAsUsername != test.named || got.RunAsGroup.GetValue() != 9 || (got.RunAsUser == nil) != (test.user == nil) || got.RunAsUser.GetValue() != test.user.GetValue() {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}
