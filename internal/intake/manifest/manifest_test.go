package manifest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

const small = `apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: app
    image: localhost/app:1
`

// named is a good pod of that name.
func named(name string) string { return strings.Replace(small, "name: web", "name: "+name, 1) }

func names(pods []*v1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Namespace+"/"+p.Name)
	}
	return out
}

// formatProblems formats problems as "line namespace/name message".
func formatProblems(problems []Problem) []string {
	var out []string
	for _, p := range problems {
		out = append(out, fmt.Sprintf("%d %s/%s %s", p.Line, p.Namespace, p.Name, p.Message))
	}
	return out
}

func TestParseTakesEveryForm(t *testing.T) {
	list := "apiVersion: v1\nkind: %s\nmetadata: {}\nitems:\n" +
		"- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n  spec: {containers: [{name: c, image: i}]}\n" +
		"- {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: other}, spec: {containers: [{name: c, image: i}]}}\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"one pod":        {small, []string{"default/web"}},
		"several":        {"# first\n---\n" + named("a") + "---\n# nothing here\n---\n" + named("b"), []string{"default/a", "default/b"}},
		"a List":         {fmt.Sprintf(list, "List"), []string{"default/a", "other/b"}},
		"a PodList":      {fmt.Sprintf(list, "PodList"), []string{"default/a", "other/b"}},
		"items bare":     {"{\"apiVersion\":\"v1\",\"kind\":\"PodList\",\"items\":[\n\t{\"metadata\":{\"name\":\"a\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}]}", []string{"default/a"}},
		"an empty list":  {"{\"apiVersion\":\"v1\",\"kind\":\"PodList\",\"items\":null}", nil},
		"nothing":        {"", nil},
		"only a comment": {"# web: off for now\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := Parse([]byte(c.text))
			if len(r.Problems) > 0 {
				t.Fatalf("unexpected: %q", formatProblems(r.Problems))
			}
			if have := names(r.Pods); !reflect.DeepEqual(have, c.want) {
				t.Errorf("have %q, want %q", have, c.want)
			}
		})
	}
}

func TestABadDocumentLeavesTheGoodOnes(t *testing.T) {
	text := named("a") + // lines 1 to 8
		"---\n" + strings.Replace(named("b"), "image:", "imagge:", 1) + // lines 9 to 17
		"---\n" + "kind: [\n" +
		"---\n" + named("c")
	r := Parse([]byte(text))

	if have, want := names(r.Pods), []string{"default/a", "default/c"}; !reflect.DeepEqual(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
	want := []string{
		"17 default/b spec.containers[0].imagge: unknown field; did you mean image?",
		"19 / invalid YAML: did not find expected node content",
	}
	if have := formatProblems(r.Problems); !reflect.DeepEqual(have, want) {
		t.Errorf("have %q\nwant %q", have, want)
	}
}

func TestABadItemLeavesTheGoodOnes(t *testing.T) {
	text := "apiVersion: v1\nkind: PodList\nitems:\n" +
		"- metadata: {name: a}\n  spec: {containers: [{name: c, image: i}]}\n" +
		"- metadata: {name: b}\n  spec: {}\n" +
		"- metadata: {name: c}\n  spec: {containers: [{name: c, image: i}]}\n"
	r := Parse([]byte(text))

	if have, want := names(r.Pods), []string{"default/a", "default/c"}; !reflect.DeepEqual(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
	want := []string{"7 default/b spec.containers: Required value: a pod needs at least one container"}
	if have := formatProblems(r.Problems); !reflect.DeepEqual(have, want) {
		t.Errorf("have %q\nwant %q", have, want)
	}
}

func TestWhatIsNotTaken(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"of a cluster":   {"apiVersion: apps/v1\nkind: Deployment\n", "2 / Deployment is for a cluster: berth takes " + acceptedKinds},
		"likewise":       {"apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\n", "2 shop/web Service is for a cluster: berth takes " + acceptedKinds},
		"custom":         {"apiVersion: a.b/v1\nkind: Thing\nmetadata: {name: web}\n", "2 /web Thing is for a cluster: berth takes " + acceptedKinds},
		"unknown":        {"apiVersion: v1\nkind: ConfigMpa\n", "2 / kind ConfigMpa is not known: berth takes " + acceptedKinds},
		"class of old":   {"apiVersion: node.k8s.io/v1beta1\nkind: RuntimeClass\n", `1 / apiVersion of a RuntimeClass must be node.k8s.io/v1, but is "node.k8s.io/v1beta1"`},
		"other list":     {"apiVersion: v1\nkind: ServiceList\nitems: []\n", "2 / kind ServiceList is not known: berth takes " + acceptedKinds},
		"other version":  {"kind: Pod\napiVersion: v2\n", `2 / apiVersion of a Pod must be v1, but is "v2"`},
		"no version":     {"kind: Pod\n", `1 / apiVersion of a Pod must be v1, but is ""`},
		"no kind":        {"apiVersion: v1\n", "1 / kind is missing: berth takes " + acceptedKinds},
		"no object":      {"hello\n", "1 / this is not a Kubernetes object: it needs apiVersion, kind and metadata"},
		"no items":       {"apiVersion: v1\nkind: List\n", "1 / items: a List needs a list of objects; an empty one is written []"},
		"items no list":  {"apiVersion: v1\nkind: List\nitems: {}\n", "3 / items: a List needs a list of objects; an empty one is written []"},
		"list in a list": {"apiVersion: v1\nkind: List\nitems: &a\n- {apiVersion: v1, kind: List, items: *a}\n", "4 / a list can't hold another list"},
		"bad list":       {"apiVersion: v1\nkind: List\nitem: []\nitems: []\n", "3 / item: unknown field; did you mean items?"},
		"bare in a List": {"apiVersion: v1\nkind: List\nitems:\n- metadata: {name: a}\n", "4 / kind is missing: berth takes " + acceptedKinds},
	} {
		t.Run(name, func(t *testing.T) {
			r := Parse([]byte(c.text))
			if have := formatProblems(r.Problems); len(r.Pods) > 0 || !reflect.DeepEqual(have, []string{c.want}) {
				t.Errorf("have %q\nwant %q", have, c.want)
			}
		})
	}
}

func TestABadNameIsNoIdentity(t *testing.T) {
	// A typo in the name itself must not look like another pod that was removed.
	r := Parse([]byte(named("Web_1")))
	if len(r.Problems) != 1 || r.Problems[0].Name != "" || r.Problems[0].Line != 4 {
		t.Errorf("have %q", formatProblems(r.Problems))
	}
}

func TestProblemsOfAPodAreBounded(t *testing.T) {
	r := Parse([]byte(small + strings.Repeat("  - {}\n", 50)))
	if len(r.Problems) != maxProblems || !strings.HasSuffix(r.Problems[maxProblems-1].Message, "(and 90 more mistakes)") {
		t.Errorf("have %d: %q", len(r.Problems), formatProblems(r.Problems))
	}
}

func TestObjectsAreBounded(t *testing.T) {
	item := "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}"
	text := "apiVersion: v1\nkind: List\nitems:\n- &p " + item + "\n" + strings.Repeat("- *p\n", maxObjects)
	r := Parse([]byte(text))
	if len(r.Pods) != maxObjects || len(r.Problems) != 1 {
		t.Errorf("have %d pods, problems %q", len(r.Pods), formatProblems(r.Problems))
	}
}

func TestWhatAServerWroteIsDropped(t *testing.T) {
	text := strings.Replace(small, "  name: web\n", `  name: web
  resourceVersion: "7"
  generation: 3
  creationTimestamp: 2024-01-01T00:00:00Z
  ownerReferences: [{apiVersion: v1, kind: X, name: x, uid: y}]
  finalizers: [a/b]
  managedFields: [{manager: m, fieldsV1: {"f:spec": {}}}]
  annotations: {kubernetes.io/config.mirror: x, kubernetes.io/config.seen: y, mine: z}
`, 1) + "  nodeName: elsewhere\n  serviceAccountName: default\nstatus: {phase: Running}\n"
	with, without := Parse([]byte(text)), Parse([]byte(strings.Replace(small, "  name: web\n", "  name: web\n  annotations: {mine: z}\n", 1)))
	if len(with.Problems) > 0 {
		t.Fatalf("unexpected: %q", formatProblems(with.Problems))
	}
	if !reflect.DeepEqual(with.Pods[0], without.Pods[0]) {
		t.Errorf("have %+v\nwant %+v", with.Pods[0], without.Pods[0])
	}
}

func TestADigestNamesWhatIsWritten(t *testing.T) {
	digest := func(text string) string {
		t.Helper()
		r := Parse([]byte(text))
		if len(r.Pods) != 1 || len(r.Digests) != 1 {
			t.Fatalf("want one pod: %q", formatProblems(r.Problems))
		}
		return r.Digests[0]
	}
	base := digest(small)
	if len(base) != 64 {
		t.Errorf("have %q", base)
	}
	for name, text := range map[string]string{
		"comment": "# hello\n" + small,
		"json":    `{"kind": "Pod", "apiVersion": "v1", "spec": {"containers": [{"image": "localhost/app:1", "name": "app"}]}, "metadata": {"name": "web"}}`,
		"list":    `{"kind": "List", "apiVersion": "v1", "items": [{"kind": "Pod", "apiVersion": "v1", "spec": {"containers": [{"image": "localhost/app:1", "name": "app"}]}, "metadata": {"name": "web"}}]}`,
	} {
		if have := digest(text); have != base {
			t.Errorf("%s: %s, want %s", name, have, base)
		}
	}
	if have := digest(small + "  restartPolicy: Always\n"); have == base {
		t.Error("what is written makes no difference")
	}
}

func TestParseStored(t *testing.T) {
	const good = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "image": "a:1"}]}}`
	for name, c := range map[string]struct {
		text     string
		read     bool
		problems int
	}{
		"good":            {good, true, 0},
		"refused":         {strings.Replace(good, `"containers"`, `"dnsPolicy": "Ask", "containers"`, 1), true, 1},
		"unknown field":   {strings.Replace(good, `"image"`, `"engine": 8, "image"`, 1), false, 1},
		"another type":    {strings.Replace(good, `"a:1"`, `{}`, 1), false, 1},
		"another version": {strings.Replace(good, `"v1"`, `"v2"`, 1), false, 1},
		"another kind":    {strings.Replace(good, `"Pod"`, `"Boat"`, 1), false, 1},
		"a path":          {strings.Replace(good, `"web"`, `"../web"`, 1), false, 1},
		"no object":       {"7", false, 1},
		"two":             {good + good, false, 1},
		"no JSON":         {"{", false, 1},
	} {
		o, problems := ParseStored([]byte(c.text))
		if (o != nil) != c.read || len(problems) != c.problems {
			t.Errorf("%s: have %v, %q", name, o, formatProblems(problems))
		}
	}
}
