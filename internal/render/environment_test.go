package render

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestExpand(t *testing.T) {
	vars := []variable{{"A", "first"}, {"B", "b"}, {"A", "last"}, {"EMPTY", ""}, {"DOLLAR", "$(B)$$"}}
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
	var got []string
	for _, kv := range keyValues(environment(p, c, node)) {
		got = append(got, kv.Key+"="+string(kv.Value))
	}
	want := "TWO=1$(LATER) ONE=1+ LATER=1$(LATER) POD=web NAMESPACE=shop UID=uid-1 NODE=edge ALL=shop/web on edge"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
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
	for _, v := range environment(webPod(), c, node) {
		if len(v.value) > maxString+200 {
			t.Fatalf("%s has %d bytes", v.name, len(v.value))
		}
	}
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"", "$", "$$", "$(A)", "$(A", "$$(A)", "a$(B)c", "$($(A))", "$()", "x$"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := expand(s, []variable{{"A", "1"}, {"B", ""}})
		if !strings.Contains(s, "$") && got != s {
			t.Errorf("%q has nothing to expand, and became %q", s, got)
		}
		if escaped := strings.ReplaceAll(s, "$", "$$"); expand(escaped, nil) != s {
			t.Errorf("%q, escaped, became %q", s, expand(escaped, nil))
		}
	})
}
