package render

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/lib/downward"
)

func TestExpand(t *testing.T) {
	vars := []Variable{{"A", "first"}, {"B", "b"}, {"A", "last"}, {"EMPTY", ""}, {"DOLLAR", "$(B)$$"}}
	for in, want := range map[string]string{
		"":               "",
		"plain":          "plain",
		"$(B)":           "b",
		"$(A)":           "last", // the last of a name wins
		"x$(B)$(B)y":     "xbby",
		"$(EMPTY)":       "",
		"$(UNKNOWN)":     "$(UNKNOWN)",
		"$()":            "$()",
		"$$":             "$",
		"$$(B)":          "$(B)",
		"$$$(B)":         "$b",
		"$$$$(B)":        "$$(B)",
		"$(B":            "$(B",
		"$(B $$ $$(B $":  "$(B $ $(B $",
		"$(U$(B)":        "$(U$(B)", // a name ends at the first bracket
		"$B $ B":         "$B $ B",
		"$":              "$",
		"ends with $":    "ends with $",
		"$(DOLLAR)":      "$(B)$$", // a value is not expanded again
		"ü$(B)ü":         "übü",
		"$(U)$(B)$(U)$$": "$(U)b$(U)$",
	} {
		if got := expand(in, vars); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestVariablesKeepTheirOrderAndTheLastOfANameWins(t *testing.T) {
	p := webPod()
	c := &v1.Container{Env: []v1.EnvVar{
		{Name: "ONE", Value: "1"},
		{Name: "TWO", Value: "$(ONE)$(LATER)"}, // only what came before can be used
		{Name: "ONE", Value: "$(ONE)+"},
		{Name: "LATER", Value: "$(TWO)"},
		{Name: "POD", ValueFrom: from("metadata.name")},
		{Name: "NAMESPACE", ValueFrom: from("metadata.namespace")},
		{Name: "UID", ValueFrom: from("metadata.uid")},
		{Name: "NODE", ValueFrom: from("spec.nodeName")},
		{Name: "ALL", Value: "$(NAMESPACE)/$(POD) on $(NODE)"},
	}}
	env, err := Environment(p, c, References{Facts: downward.Facts{NodeName: "edge"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, kv := range keyValues(env) {
		got = append(got, kv.Key+"="+string(kv.Value))
	}
	want := "TWO=1$(LATER) ONE=1+ LATER=1$(LATER) POD=web NAMESPACE=shop UID=uid-1 NODE=edge ALL=shop/web on edge"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
}

func TestVariablesComeFromServicesSourcesAndKeysInThatOrder(t *testing.T) {
	p := webPod()
	p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}
	yes := true
	c := &v1.Container{
		Name: "app",
		EnvFrom: []v1.EnvFromSource{
			{Prefix: "C_", ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}},
			{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "keys"}}},
			{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "none"}, Optional: &yes}},
		},
		Env: []v1.EnvVar{
			{Name: "URL", Value: "$(DB_PORT)/$(C_a)"},
			{Name: "KEY", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "keys"}, Key: "k"}}},
			{Name: "B", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}, Key: "b.b"}}},
			{Name: "NONE", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "none"}, Key: "x", Optional: &yes}}},
			{Name: "IP", ValueFrom: from("status.podIP")},
			{Name: "MB", ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}}},
			{Name: "FILED", ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: "p", Key: "f"}}},
		},
	}
	service := func(namespace, name, ip string) *v1.Service {
		s := &v1.Service{Spec: v1.ServiceSpec{ClusterIP: ip, Ports: []v1.ServicePort{{Name: "main", Port: 5432, Protocol: v1.ProtocolTCP}}}}
		s.Namespace, s.Name = namespace, name
		return s
	}
	r := References{
		ConfigMaps: map[string]*v1.ConfigMap{"settings": {Data: map[string]string{"a": "$(KEY)", "b.b": "2", "bad=name": "x"}}},
		Secrets:    map[string]*v1.Secret{"keys": {Data: map[string][]byte{"k": []byte("s3")}}},
		Services: []*v1.Service{
			service("shop", "db", "10.0.0.9"), service("other", "db2", "10.0.0.8"), service("default", "kubernetes", "10.0.0.1"), service("shop", "headless", "None"),
		},
		Files: map[EnvFile]map[string]string{{"v", "p"}: {"f": "from a file"}},
		Facts: downward.Facts{PodIPs: []string{"10.1.0.7"}},
	}
	env, err := Environment(p, c, r)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, kv := range keyValues(env) {
		got[kv.Key] = string(kv.Value)
	}
	for name, want := range map[string]string{
		"DB_SERVICE_HOST": "10.0.0.9", "DB_SERVICE_PORT": "5432", "DB_SERVICE_PORT_MAIN": "5432", "DB_PORT": "tcp://10.0.0.9:5432",
		"DB_PORT_5432_TCP": "tcp://10.0.0.9:5432", "DB_PORT_5432_TCP_PROTO": "tcp", "DB_PORT_5432_TCP_PORT": "5432", "DB_PORT_5432_TCP_ADDR": "10.0.0.9",
		"KUBERNETES_SERVICE_HOST": "10.0.0.1",
		"C_a":                     "$(KEY)", "C_b.b": "2", "k": "s3", "URL": "tcp://10.0.0.9:5432/$(KEY)", "KEY": "s3", "B": "2", "IP": "10.1.0.7", "MB": "64", "FILED": "from a file",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	for _, name := range []string{"NONE", "DB2_SERVICE_HOST", "HEADLESS_SERVICE_HOST", "C_bad=name"} {
		if value, found := got[name]; found {
			t.Errorf("%s is %q, and should not be there", name, value)
		}
	}

	p.Spec.EnableServiceLinks = new(false)
	env, err = Environment(p, &v1.Container{}, r)
	if err != nil || len(env) == 0 || env[0] != (Variable{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}) {
		t.Errorf("without links: %v, %v", env, err)
	}
}

func TestWhatAVariableLacksIsNamed(t *testing.T) {
	named := v1.LocalObjectReference{Name: "x"}
	r := References{
		ConfigMaps: map[string]*v1.ConfigMap{"there": {}},
		Secrets:    map[string]*v1.Secret{"there": {}},
	}
	for want, source := range map[string]v1.EnvVarSource{
		`configmap "x" not found`:                       {ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: named}},
		`secret "x" not found`:                          {SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: named}},
		"couldn't find key k in ConfigMap shop/there":   {ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "there"}, Key: "k"}},
		"couldn't find key k in Secret shop/there":      {SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "there"}, Key: "k"}},
		"couldn't find key k in file p of volume v":     {FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: "p", Key: "k"}},
		`field "spec.nope" is not one`:                  {FieldRef: &v1.ObjectFieldSelector{FieldPath: "spec.nope"}},
		"it says nothing of where its value comes from": {},
	} {
		_, err := Environment(webPod(), &v1.Container{Env: []v1.EnvVar{{Name: "V", ValueFrom: &source}}}, r)
		if err == nil || !strings.HasPrefix(err.Error(), "variable V: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for want, source := range map[string]v1.EnvFromSource{
		`configmap "x" not found`: {ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: named}},
		`secret "x" not found`:    {SecretRef: &v1.SecretEnvSource{LocalObjectReference: named}},
	} {
		if _, err := Environment(webPod(), &v1.Container{EnvFrom: []v1.EnvFromSource{source}}, r); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func from(path string) *v1.EnvVarSource {
	return &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}
}

// A page of manifest must not become gigabytes.
func TestVariablesThatDoubleOneAnotherDoNotFillTheMemory(t *testing.T) {
	c := &v1.Container{Env: []v1.EnvVar{{Name: "V0", Value: "0123456789"}}}
	for i := range 40 {
		before, name := c.Env[i].Name, "V"+strings.Repeat("x", i+1)
		c.Env = append(c.Env, v1.EnvVar{Name: name, Value: "$(" + before + ")$(" + before + ")"})
	}
	env, err := Environment(webPod(), c, References{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range env {
		if len(v.Value) > maxString+200 {
			t.Fatalf("%s has %d bytes", v.Name, len(v.Value))
		}
	}
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"", "$", "$$", "$(A)", "$(A", "$$(A)", "a$(B)c", "$($(A))", "$()", "x$"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := expand(s, []Variable{{"A", "1"}, {"B", ""}})
		if !strings.Contains(s, "$") && got != s {
			t.Errorf("%q has nothing to expand, and became %q", s, got)
		}
		if escaped := strings.ReplaceAll(s, "$", "$$"); expand(escaped, nil) != s {
			t.Errorf("%q, escaped, became %q", s, expand(escaped, nil))
		}
	})
}
