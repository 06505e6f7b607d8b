package manifest

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth/internal/lib/pod"
)

func static(t *testing.T, text, node, source, origin string) *v1.Pod {
	t.Helper()
	r := Parse([]byte(text))
	if len(r.Problems) > 0 || len(r.Pods) != 1 {
		t.Fatalf("want one pod: %q", formatProblems(r.Problems))
	}
	p, err := Static(r.Pods[0], node, source, origin)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStatic(t *testing.T) {
	p := static(t, small, "Node-1", pod.SourceFile, "/m/web.yaml")

	if p.Name != "web-node-1" || p.Spec.NodeName != "node-1" {
		t.Errorf("have name %s on %s", p.Name, p.Spec.NodeName)
	}
	if !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(string(p.UID)) {
		t.Errorf("have UID %s", p.UID)
	}
	want := map[string]string{pod.AnnotationHash: string(p.UID), pod.AnnotationSource: pod.SourceFile}
	if !reflect.DeepEqual(p.Annotations, want) {
		t.Errorf("have %v, want %v", p.Annotations, want)
	}
	if want := []v1.Toleration{{Operator: "Exists", Effect: "NoExecute"}}; !reflect.DeepEqual(p.Spec.Tolerations, want) {
		t.Errorf("have %v", p.Spec.Tolerations)
	}
	if p := static(t, small, "n", pod.SourceHTTP, "u"); len(p.Spec.Tolerations) > 0 {
		t.Errorf("a pod from a URL got %v", p.Spec.Tolerations)
	}
}

func TestUIDFollowsContent(t *testing.T) {
	uid := func(text, node, source, origin string) pod.UID { return static(t, text, node, source, origin).UID }
	base := uid(small, "n", pod.SourceFile, "/m/a.yaml")

	// Layout, comments and what is the default anyway do not count.
	for name, text := range map[string]string{
		"comment": "# hello\n" + strings.ReplaceAll(small, "web\n", "web # yes\n"),
		"json":    "{\"kind\": \"Pod\", \"apiVersion\": \"v1\",\n\n\t\"spec\": {\"containers\": [{\"image\": \"localhost/app:1\", \"name\": \"app\"}]}, \"metadata\": {\"name\": \"web\"}}",
		"default": small + "  restartPolicy: Always\n",
	} {
		if have := uid(text, "n", pod.SourceFile, "/m/a.yaml"); have != base {
			t.Errorf("%s: %s, want %s", name, have, base)
		}
	}
	for name, have := range map[string]pod.UID{
		"spec":   uid(small+"  restartPolicy: Never\n", "n", pod.SourceFile, "/m/a.yaml"),
		"node":   uid(small, "other", pod.SourceFile, "/m/a.yaml"),
		"source": uid(small, "n", pod.SourceHTTP, "/m/a.yaml"),
		"origin": uid(small, "n", pod.SourceFile, "/m/b.yaml"),
	} {
		if have == base {
			t.Errorf("%s makes no difference", name)
		}
	}
	if have := uid(strings.Replace(small, "name: web\n", "name: web\n  uid: mine\n", 1), "n", pod.SourceFile, "x"); have != "mine" {
		t.Errorf("the UID of the manifest became %s", have)
	}
}

// A release that changes this value replaces the pods of a folder whose state file is gone.
// If that is meant, say so in the changelog.
func TestUIDStaysOverReleases(t *testing.T) {
	const want = "7fc66c27-e062-84e0-a567-702a634f543f"
	if have := static(t, small, "n", pod.SourceFile, "/m/a.yaml").UID; have != want {
		t.Errorf("have %s, want %s", have, want)
	}
}

func TestStaticIsTheSameTwice(t *testing.T) {
	// What was remembered over a restart goes through here again.
	once := static(t, small, "n", pod.SourceFile, "x")
	again, err := Static(once, "n", pod.SourceFile, "x")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(once, again) {
		t.Errorf("have %+v\nwant %+v", again, once)
	}
}

func TestStaticName(t *testing.T) {
	long := strings.Repeat("a.", 120) + "a"
	for _, c := range []struct{ name, node, want string }{
		{"web", "n1", "web-n1"},
		{"web", "N1", "web-n1"},
		{"web-n1", "n1", "web-n1"},
	} {
		if have := StaticName(c.name, c.node); have != c.want {
			t.Errorf("have %s, want %s", have, c.want)
		}
	}
	for _, node := range []string{"node-of-some-length", long} {
		a, b := StaticName(long+"b", node), StaticName(long+"c", node)
		if a == b || len(validation.IsDNS1123Subdomain(a)) > 0 || len(validation.IsDNS1123Subdomain(b)) > 0 {
			t.Errorf("long names became %s and %s", a, b)
		}
		if again := StaticName(a, node); again != a {
			t.Errorf("%s became %s", a, again)
		}
	}
}
