package strict

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type inner struct {
	Name  string              `json:"name"`
	Port  int32               `json:"port"`
	Any   *intstr.IntOrString `json:"any"`
	Limit resource.Quantity   `json:"limit"`
	Wait  metav1.Duration     `json:"wait"`
}

type outer struct {
	metav1.TypeMeta `json:",inline"`
	On              *bool             `json:"on"`
	Ratio           float64           `json:"ratio"`
	Count           uint32            `json:"count"`
	Labels          map[string]string `json:"labels"`
	Items           []inner           `json:"items"`
	Raw             []byte            `json:"raw"`
	Free            any               `json:"free"`
	Rest            Skip              `json:"rest"`
}

// one decodes the only document of a text and returns its mistakes, each as
// "line field: message".
func one(t *testing.T, text string) (outer, []string) {
	t.Helper()
	docs, errs := Documents([]byte(text))
	var o outer
	if len(errs) == 0 {
		if len(docs) != 1 {
			t.Fatalf("want one document, have %d", len(docs))
		}
		errs = docs[0].Decode(&o)
	}
	var out []string
	for _, e := range errs {
		out = append(out, fmt.Sprintf("%d %v", e.Line, e))
	}
	return o, out
}

func TestDecodeTakesWhatFits(t *testing.T) {
	yes := true
	port := intstr.FromInt32(80)
	want := outer{
		TypeMeta: metav1.TypeMeta{Kind: "K"}, On: &yes, Ratio: 0.5, Count: 420,
		Labels: map[string]string{"a": "yes", "1": "x"},
		Items:  []inner{{Name: "n", Port: 1, Any: &port, Limit: resource.MustParse("1.5"), Wait: metav1.Duration{Duration: 2e9}}},
		Raw:    []byte("hi"), Free: map[string]any{"x": []any{1.0, true, nil, "t"}},
	}
	for name, text := range map[string]string{
		"yaml": `
kind: K
on: yes
ratio: 0.5
count: 0644
labels: {a: yes, 1: x}
items:
- {name: n, port: 1, any: 80, limit: 1.5, wait: 2s}
raw: aGk=
free: {x: [1, true, null, t]}
rest: {not: looked, at: [all]}
`,
		"json with tabs": "{\n\t\"kind\": \"K\",\n\t\"on\": true, \"ratio\": 0.5, \"count\": 420,\n\t\"labels\": {\"a\": \"yes\", \"1\": \"x\"}," +
			"\n\t\"items\": [{\"name\": \"n\", \"port\": 1, \"any\": 80, \"limit\": \"1.5\", \"wait\": \"2s\"}]," +
			"\n\t\"raw\": \"aGk=\", \"free\": {\"x\": [1, true, null, \"t\"]}, \"rest\": 7\n}\n",
		"anchors and merge keys": `
kind: K
on: True
ratio: 5e-1
count: 0x1a4
free: {x: [1, true, null, t]}
labels: &l {a: yes, "1": x}
items:
- <<: [{name: n, port: 9}, {limit: 1500m}]
  port: 1
  any: 80
  wait: 2s
raw: aGk=
rest: *l
`,
	} {
		t.Run(name, func(t *testing.T) {
			have, errs := one(t, text)
			if len(errs) > 0 {
				t.Fatalf("unexpected: %q", errs)
			}
			if have.Items[0].Limit.Cmp(want.Items[0].Limit) != 0 {
				t.Fatalf("limit is %s", have.Items[0].Limit.String())
			}
			have.Items[0].Limit = want.Items[0].Limit
			if !reflect.DeepEqual(have, want) {
				t.Errorf("have %+v\nwant %+v", have, want)
			}
		})
	}
}

func TestMistakesHaveLineAndField(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"unknown field":      {"kind: K\nitems:\n- name: a\n  prot: 1\n", []string{"4 items[0].prot: unknown field; did you mean port?"}},
		"other case":         {"Kind: K\n", []string{`1 Kind: unknown field: it is spelled "kind"`}},
		"duplicate field":    {"kind: K\nratio: 1\nkind: L\n", []string{"3 kind: duplicate field: it is already set above"}},
		"duplicate key":      {"labels:\n  a: b\n  a: c\n", []string{"3 labels.a: duplicate field: it is already set above"}},
		"text, not number":   {"labels:\n  a: 8080\n", []string{"2 labels[a]: must be text, but is the number 8080: put it in quotes"}},
		"number, not text":   {"items:\n- port: \"80\"\n", []string{`2 items[0].port: must be a whole number, but is the text "80"`}},
		"number, broken":     {"items:\n- port: 1.5\n", []string{"2 items[0].port: must be a whole number, but is the number 1.5"}},
		"number, too large":  {"items:\n- port: 3000000000\n", []string{"2 items[0].port: 3000000000 is too large or too small"}},
		"negative, unsigned": {"count: -1\n", []string{"1 count: -1 is too large or too small"}},
		"infinite":           {"ratio: .inf\n", []string{"1 ratio: must be a finite number, but is .inf"}},
		"bool":               {"on: \"yes\"\n", []string{`1 on: must be true or false, but is the text "yes"`}},
		"list":               {"items: {name: a}\n", []string{"1 items: must be a list, but is a mapping"}},
		"mapping":            {"items: [a]\n", []string{`1 items[0]: must be a mapping of names to values, but is the text "a"`}},
		"scalar":             {"kind: [a]\n", []string{"1 kind: must be a single text, but is a list"}},
		"base64":             {"raw: \"%%\"\n", []string{"1 raw: must be text in base64: illegal base64 data at input byte 0"}},
		"tag":                {"free: !thing x\n", []string{"1 free: the tag !thing is not supported"}},
		"complex key":        {"labels:\n  [a]: b\n", []string{"2 labels: a field name must be text, but is a list"}},
		"bad merge":          {"labels:\n  <<: 7\n", []string{"2 labels: a merge key needs a mapping, but has the number 7"}},
		"own type":           {"items:\n- name: a\n- wait: soon\n", []string{`3 items[1].wait: invalid value "soon": time: invalid duration "soon"`}},
		"all of them":        {"a: 1\nb: 2\n", []string{"1 a: unknown field", "2 b: unknown field"}},
		"json":               {"{\n\t\"kind\": \"K\",\n\t\"x\": 1,\n\t\"kind\": \"L\"\n}", []string{"3 x: unknown field", "4 kind: duplicate field: it is already set above"}},
		"json syntax":        {"{\n\t\"kind\": \"K\",\n\t\"on\": \n}}", []string{"4 invalid JSON: invalid character '}' looking for beginning of value"}},
		"json cut off":       {"{\n\t\"kind\": \"K\",\n", []string{"2 invalid JSON: unexpected end of JSON input"}},
		"yaml syntax":        {"kind: K\nitems:\n- name: a\n  port: 1\n bad\n", []string{"5 invalid YAML: did not find expected key"}},
		"yaml quote":         {"kind: K\nlabels:\n  a: 'x\n  b: y\nratio: 1\n", []string{"3 invalid YAML: found unexpected end of stream"}},
		"yaml after quote":   {"labels:\n  a: 'x\n    y'\n  b: [1,\n    2]\nratio: 1\nfree: a: b\nkind: K\non: yes\n", []string{"7 invalid YAML: mapping values are not allowed in this context"}},
		"yaml tab":           {"kind: K\nlabels:\n\ta: b\n", []string{"3 invalid YAML: found character that cannot start any token"}},
		"utf-16":             {"\xff\xfek\x00", []string{"1 the text is UTF-16: save it as UTF-8"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, have := one(t, c.text)
			if !reflect.DeepEqual(have, c.want) {
				t.Errorf("have %q\nwant %q", have, c.want)
			}
		})
	}
}

func TestDocumentsAreCutApart(t *testing.T) {
	text := "# only a comment\n" +
		"%YAML 1.2\n" +
		"---\n" +
		"kind: A\n" +
		"---\n" +
		"# nothing\n" +
		"--- {kind: B}\n" +
		"---\r\n" +
		"kind: [\n" +
		"---\n" +
		"kind: C\n" +
		"...\n"
	docs, errs := Documents([]byte(text))

	var have []string
	for _, d := range docs {
		have = append(have, fmt.Sprintf("%d %s", d.Line(), d.Text("kind")))
	}
	if want := []string{"4 A", "7 B", "11 C"}; !reflect.DeepEqual(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
	if len(errs) != 1 || errs[0].Line != 9 {
		t.Errorf("want one error at line 9, have %+v", errs)
	}
}

func TestJSONDocumentsFollowOneAnother(t *testing.T) {
	docs, errs := Documents([]byte("{\"kind\":\"A\"}\n{\n\t\"kind\":\"B\"}"))
	if len(errs) > 0 || len(docs) != 2 || docs[1].Text("kind") != "B" || docs[1].Line() != 2 {
		t.Errorf("have %+v, %+v", docs, errs)
	}
	// The flow style of YAML looks like JSON and is not.
	docs, errs = Documents([]byte("{kind: A}\n---\nkind: B\n"))
	if len(errs) > 0 || len(docs) != 2 || docs[0].Text("kind") != "A" {
		t.Errorf("have %+v, %+v", docs, errs)
	}
}

func TestLineOf(t *testing.T) {
	docs, _ := Documents([]byte("---\nkind: K\nlabels:\n  a.b/c: d\nitems:\n- name: x\n- name: y\n  port: 1\n"))
	for path, want := range map[string]int{
		"kind": 2, "labels[a.b/c]": 4, "labels[zz]": 3, "items[1].port": 8, "items[1].image": 7, "items[9].name": 5, "zz.y[0]": 2, "": 2,
	} {
		if have := docs[0].LineOf(path); have != want {
			t.Errorf("%s: line %d, want %d", path, have, want)
		}
	}
}

func TestItemsAreDocuments(t *testing.T) {
	docs, _ := Documents([]byte("items:\n- kind: A\n- kind: B\nempty: null\nkind: List\n"))
	items, ok := docs[0].Items("items")
	if !ok || len(items) != 2 || items[1].Text("kind") != "B" || items[1].Line() != 3 || !items[1].IsObject() {
		t.Errorf("have %+v", items)
	}
	for name, want := range map[string]bool{"empty": true, "none": false, "kind": false} {
		if items, ok := docs[0].Items(name); ok != want || len(items) > 0 {
			t.Errorf("%s: have %+v, %v", name, items, ok)
		}
	}
}

func TestAliasesAndNestingAreBounded(t *testing.T) {
	var bomb, merges strings.Builder
	bomb.WriteString("free:\n- &a0 [x]\n")
	merges.WriteString("free:\n- &a0 {k: v}\n")
	for i := range 40 {
		fmt.Fprintf(&bomb, "- &a%d [%s]\n", i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9))
		fmt.Fprintf(&merges, "- &a%d {<<: [%s]}\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 9), ","))
	}
	for name, text := range map[string]string{
		"bomb":            bomb.String(),
		"merges":          merges.String(),
		"cycle":           "free: &a [*a]\n",
		"merge of itself": "free: &a\n  <<: *a\n",
		"deep yaml":       "free: " + strings.Repeat("[", 500) + strings.Repeat("]", 500) + "\n",
		"deep json":       `{"free": ` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + "}",
	} {
		t.Run(name, func(t *testing.T) {
			if _, errs := one(t, text); len(errs) == 0 || len(errs) > maxErrors {
				t.Errorf("want some errors, have %d", len(errs))
			}
		})
	}
}

func TestALenientReaderGoesOn(t *testing.T) {
	docs, errs := Documents([]byte("kind: K\ncount: 1\ncuont: 2\ncount: 3\n"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	text, errs := docs[0].JSON(&outer{})
	if got, want := string(text), `{"kind":"K","count":3}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(errs) != 2 || !errs[0].Unknown || !errs[1].Doubled || errs[0].Line != 3 || errs[1].Line != 4 {
		t.Errorf("got %+v", errs)
	}
	docs, _ = Documents([]byte("kind: K\ncount: many\n"))
	if _, errs := docs[0].JSON(&outer{}); len(errs) != 1 || errs[0].Unknown || errs[0].Doubled {
		t.Errorf("got %+v", errs)
	}
}
