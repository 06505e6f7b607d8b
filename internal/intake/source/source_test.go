package source

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"berth/internal/intake/manifest"
	"berth/internal/lib/leaktest"
	"berth/internal/lib/pod"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// web is the manifest of a pod.
func web(name, image string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  containers:\n  - name: app\n    image: localhost/" + image + "\n"
}

// broken is the manifest of a pod of that name with a mistake in line 7.
func broken(name string) string { return strings.Replace(web(name, "x"), "image", "imgae", 1) }

// formatSnapshot formats a snapshot: pods with their images, and what was
// refused.
func formatSnapshot(s pod.Snapshot) string { return formatAll(s, nil) }

// formatAll also formats objects, with their values of the key "key".
func formatAll(s pod.Snapshot, objects []runtime.Object) string {
	var out []string
	for _, p := range s.Pods {
		out = append(out, p.Name+"="+strings.TrimPrefix(p.Spec.Containers[0].Image, "localhost/"))
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *v1.ConfigMap:
			out = append(out, "map:"+o.Name+"="+o.Data["key"])
		case *v1.Secret:
			out = append(out, "secret:"+o.Name+"="+string(o.Data["key"]))
		default:
			out = append(out, fmt.Sprintf("%T", o))
		}
	}
	for _, r := range s.Refused {
		out = append(out, fmt.Sprintf("!%s:%d %s kept=%v", filepath.Base(r.Origin), r.Line, r.Pod+r.Object, r.Kept))
	}
	if s.Unreadable {
		out = append(out, "(unreadable)")
	}
	return s.Op.String() + " " + strings.Join(out, " ")
}

// settings is the manifest of a ConfigMap, and hush that of a Secret.
func settings(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {key: " + value + "}\n"
}

func hush(name, value string) string {
	return "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + "}\nstringData: {key: " + value + "}\n"
}

// next waits for a snapshot.
func next(t *testing.T, out <-chan pod.Snapshot) pod.Snapshot {
	t.Helper()
	select {
	case s := <-out:
		return s
	case <-time.After(30 * time.Second):
		t.Fatal("no snapshot came")
		panic("unreachable")
	}
}

func wantNext(t *testing.T, out <-chan pod.Snapshot, want string) pod.Snapshot {
	t.Helper()
	s := next(t, out)
	if have := formatSnapshot(s); have != want {
		t.Fatalf("have %q\nwant %q", have, want)
	}
	return s
}

// wantNone fails if a snapshot comes within d. It is for fake time.
func wantNone(t *testing.T, out <-chan pod.Snapshot, d time.Duration) {
	t.Helper()
	select {
	case s := <-out:
		t.Fatalf("unexpected %q", formatSnapshot(s))
	case <-time.After(d):
	}
}

// start runs a source until the returned function is called.
func start(run func(context.Context, chan<- pod.Snapshot)) (<-chan pod.Snapshot, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	out, done := make(chan pod.Snapshot), make(chan struct{})
	go func() {
		defer close(done)
		run(ctx, out)
	}()
	return out, func() {
		cancel()
		<-done
	}
}

// write writes a file in one step, so that a slow machine never shows half of it.
func write(t *testing.T, path, text string) {
	t.Helper()
	temp := filepath.Join(filepath.Dir(path), ".temp")
	must(t, os.WriteFile(temp, []byte(text), 0o600))
	must(t, os.Rename(temp, path))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestABadDocumentKeepsItsLastGoodVersion(t *testing.T) {
	in := intake{node: "n", source: pod.SourceFile}
	hold := func(documents ...string) []acceptedObject {
		out, refused := in.ingest("m.yaml", []byte(strings.Join(documents, "---\n")), nil)
		if len(refused) > 0 {
			t.Fatalf("unexpected: %v", refused)
		}
		return out
	}
	pods := func(names ...string) []acceptedObject {
		var text []string
		for _, name := range names {
			text = append(text, web(name, "old"))
		}
		return hold(text...)
	}
	both := hold(web("a", "old"), settings("a", "old"), hush("a", "old"))
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"
	for name, c := range map[string]struct {
		last []acceptedObject
		text string
		want string
	}{
		"all good":                 {pods("a"), web("a", "new"), "SET a-n=new"},
		"a document left out":      {pods("a", "b"), web("a", "new"), "SET a-n=new"},
		"bad, nothing before":      {nil, broken("a"), "SET !m.yaml:7 default/a-n kept=false"},
		"bad, by name":             {pods("a", "b"), web("b", "new") + "---\n" + broken("a"), "SET b-n=new a-n=old !m.yaml:15 default/a-n kept=true"},
		"bad, other name":          {pods("b"), web("b", "new") + "---\n" + broken("a"), "SET b-n=new !m.yaml:15 default/a-n kept=false"},
		"bad, no name":             {pods("a", "b", "c"), web("b", "new") + "---\nkind: [\n", "SET b-n=new a-n=old c-n=old !m.yaml:9  kept=true"},
		"bad, no name, none left":  {pods("b"), web("b", "new") + "---\nkind: [\n", "SET b-n=new !m.yaml:9  kept=false"},
		"two mistakes in one":      {pods("a"), broken("a") + "    x: y\n", "SET a-n=old !m.yaml:7 default/a-n kept=true !m.yaml:8 default/a-n kept=true"},
		"empty":                    {pods("a"), " \n\n", "SET a-n=old !m.yaml:0  kept=true"},
		"commented out altogether": {pods("a"), "# " + web("a", "x")[:3] + "\n", "SET "},

		"objects, all good":    {both, web("a", "new") + "---\n" + settings("a", "new") + "---\n" + hush("a", "new"), "SET a-n=new map:a=new secret:a=new"},
		"a bad map":            {both, web("a", "new") + "---\n" + settings("a", "7"), "SET a-n=new map:a=old !m.yaml:12 ConfigMap default/a kept=true"},
		"a bad secret":         {both, web("a", "new") + "---\n" + hush("a", "7"), "SET a-n=new secret:a=old !m.yaml:12 Secret default/a kept=true"},
		"a bad pod":            {both, broken("a") + "---\n" + settings("a", "new"), "SET a-n=old map:a=new !m.yaml:7 default/a-n kept=true"},
		"a map without a name": {both, web("a", "new") + "---\n" + settings("_", "new"), "SET a-n=new map:a=old !m.yaml:11 ConfigMap kept=true"},
		"all objects, no kind": {both, "kind: [\n", "SET a-n=old map:a=old secret:a=old !m.yaml:1  kept=true"},
		"a kind mistyped":      {both, strings.Replace(settings("a", "x"), "ConfigMap", "ConfigMpa", 1), "SET a-n=old map:a=old secret:a=old !m.yaml:2  kept=true"},
		"what a cluster has":   {both, settings("a", "new") + "---\n" + deployment, "SET map:a=new !m.yaml:7 Deployment a kept=false"},
		"a version that is no good": {
			both, web("a", "new") + "---\n" + strings.Replace(settings("a", "x"), "v1", "v2", 1),
			"SET a-n=new map:a=old !m.yaml:9 ConfigMap default/a kept=true",
		},
		"defined twice": {nil, settings("a", "x") + "---\n" + settings("a", "y"), "SET map:a=x !m.yaml:0 ConfigMap default/a kept=false"},
	} {
		t.Run(name, func(t *testing.T) {
			held, refused := in.ingest("m.yaml", []byte(c.text), c.last)
			all := in.collect([]manifests{{"m.yaml", held, refused}})
			if have := formatAll(pod.Snapshot{Pods: all.pods, Refused: all.refused}, all.objects); have != c.want {
				t.Errorf("have %q\nwant %q", have, c.want)
			}
		})
	}
}

// everyKind has one object of each kind that pods refer to.
const everyKind = `apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}, binaryData: {b: AAH/}}
- {apiVersion: v1, kind: Secret, metadata: {name: a}, data: {k: AAH/}, stringData: {s: hush}, immutable: true}
- {apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: a}, handler: runsc, overhead: {podFixed: {cpu: 0.1}}}
- apiVersion: v1
  kind: PersistentVolume
  metadata: {name: a}
  spec: {capacity: {storage: 1.5Gi}, accessModes: [ReadWriteOnce], local: {path: /a}, claimRef: {name: a}}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: a}
  spec: {resources: {requests: {storage: 1Gi}}, accessModes: [ReadWriteOnce], volumeName: a}
`

func TestLastGoodComesBackTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sources", "file.json")
	in := intake{node: "n", source: pod.SourceFile}
	inForce, _ := in.ingest("/m/a.yaml", []byte(web("a", "x:1")+"---\n"+web("b", "x:2")+"---\n"+everyKind), nil)
	if len(inForce) != 7 {
		t.Fatalf("have %v", inForce)
	}
	first := lastGood{path: path, in: in}
	must(t, first.save(memory{mounted: true, accepted: map[string][]acceptedObject{"/m/a.yaml": inForce}}))

	second := lastGood{path: path, in: in}
	m := second.load(quietLog())
	equal := func(x, y acceptedObject) bool {
		return x.digest == y.digest && equality.Semantic.DeepEqual(x.object, y.object)
	}
	if !m.mounted || !slices.EqualFunc(m.accepted["/m/a.yaml"], inForce, equal) {
		t.Errorf("have %+v\nwant %+v", m.accepted["/m/a.yaml"], inForce)
	}

	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v", info.Mode())
	}
	if info, err = os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its folder is %v, %v", info.Mode(), err)
	}
	// What is not new is not written.
	must(t, os.Remove(path))
	must(t, second.save(m))
	if _, err := os.Stat(path); err == nil {
		t.Error("it was written again")
	}

	// A renamed node has no use for it.
	must(t, first.save(memory{}))
	other := lastGood{path: path, in: intake{node: "other", source: pod.SourceFile}}
	if m := other.load(quietLog()); len(m.accepted) > 0 {
		t.Errorf("have %v", m)
	}
}

// good is a pod as a state file has it.
func good(name string) string {
	return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "` + name + `-n", "namespace": "default", "uid": "` + name + `1"},
		"spec": {"containers": [{"name": "app", "image": "localhost/1"}]}}`
}

// Versions of berth that take in other things than this one, and disks that lose
// something, cost what they cost, and nothing else.
func TestAStateFileIsReadAsFarAsItGoes(t *testing.T) {
	state := func(entries ...string) string {
		return `{"version": 1, "node": "n", "origins": {"/m/a": [` + strings.Join(entries, ",") + `]}}`
	}
	unknownField := strings.Replace(good("new"), `"image"`, `"engine": {"v": 8}, "image"`, 1)
	refused := strings.Replace(good("strict"), `"containers"`, `"restartPolicy": "Sometimes", "containers"`, 1)
	settings := `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}, "data": {"a/b": "x"}}`
	for name, c := range map[string]struct {
		text  string
		want  string
		aside bool // it is in no form that an agent writes
	}{
		"good":                  {text: state(good("a"), good("b")), want: "a-n b-n"},
		"a refused pod":         {text: state(good("a"), refused, good("b")), want: "a-n strict-n b-n !default/strict-n"},
		"a refused object":      {text: state(good("a"), settings), want: "a-n c !ConfigMap default/c"},
		"an unknown field":      {text: state(good("a"), unknownField, good("b")), want: "a-n (new-n) b-n"},
		"an unknown kind":       {text: state(good("a"), `{"apiVersion": "v9", "kind": "Boat", "metadata": {"name": "x"}}`), want: "a-n (x)"},
		"a newer version":       {text: strings.Replace(state(good("a")), "{", `{"more": [{}], `, 1), want: "a-n"},
		"a much newer version":  {text: strings.Replace(state(good("a")), "1", "99", 1), want: "a-n", aside: true},
		"digests in a list":     {text: strings.Replace(state(good("a")), `"origins"`, `"digests": ["x"], "mounted": {"at": 1}, "origins"`, 1), want: "a-n", aside: true},
		"a name that is a path": {text: state(good("a"), strings.Replace(good("x"), `"x-n"`, `"../x"`, 1)), want: "a-n (../x)"},
		"a pod without a UID":   {text: state(good("a"), strings.Replace(unknownField, `"uid"`, `"gid"`, 1)), want: "a-n", aside: true},
		"a number":              {text: state(good("a"), "7", good("b")), want: "a-n b-n", aside: true},
		"cut off":               {text: state(good("a"), good("b"), good("c"))[:len(state(good("a"), good("b")))], want: "a-n b-n", aside: true},
		"no JSON":               {text: "{", aside: true},
		"emptied":               {text: "", aside: true},
		"a list":                {text: `{"version": 1, "node": "n", "origins": []}`, aside: true},
		"another node":          {text: strings.Replace(state(good("a")), `"n"`, `"other"`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file.json")
			write(t, path, c.text)
			l := lastGood{path: path, in: intake{node: "n", source: pod.SourceFile}}
			m := l.load(quietLog())
			var have []string
			for _, h := range m.accepted["/m/a"] {
				if h.unreadable() {
					have = append(have, "("+h.GetName()+")")
				} else {
					have = append(have, h.GetName())
				}
			}
			for _, r := range m.refused["/m/a"] {
				have = append(have, "!"+r.Pod+r.Object)
			}
			if strings.Join(have, " ") != c.want {
				t.Errorf("have %q\nwant %q", have, c.want)
			}
			if kept, err := os.ReadFile(path + ".corrupt"); (err == nil) != c.aside || c.aside && string(kept) != c.text {
				t.Errorf("set aside: %q, %v", kept, err)
			}

			// What can't be read is still there after the next save.
			must(t, l.save(m))
			must(t, os.RemoveAll(path+".corrupt"))
			again := l.load(quietLog())
			if _, err := os.Stat(path + ".corrupt"); err == nil {
				t.Error("what was saved is damaged")
			}
			if len(again.accepted["/m/a"]) != len(m.accepted["/m/a"]) {
				t.Errorf("have %v, and then %v", m.accepted, again.accepted)
			}
		})
	}
}

func TestNodeNamesAreChecked(t *testing.T) {
	for _, node := range []string{"", "a/b", "a_b"} {
		if _, err := NewFile(FileConfig{Path: "/m", Node: node, Interval: time.Second, Log: quietLog()}); err == nil {
			t.Errorf("%q was taken", node)
		}
	}
	if have := manifest.StaticName("web", "Node"); have != "web-node" {
		t.Errorf("have %s", have)
	}
}
