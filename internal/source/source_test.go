package source

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"berth/internal/manifest"
	"berth/internal/pod"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// web is the manifest of a pod.
func web(name, image string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  containers:\n  - name: app\n    image: localhost/" + image + "\n"
}

// broken is the manifest of a pod of that name with a mistake in line 7.
func broken(name string) string { return strings.Replace(web(name, "x"), "image", "imgae", 1) }

// tell writes a snapshot as a user would: pods with their images, and what was
// refused.
func tell(s pod.Snapshot) string {
	var out []string
	for _, p := range s.Pods {
		out = append(out, p.Name+"="+strings.TrimPrefix(p.Spec.Containers[0].Image, "localhost/"))
	}
	for _, r := range s.Refused {
		out = append(out, fmt.Sprintf("!%s:%d %s kept=%v", filepath.Base(r.Origin), r.Line, r.Pod, r.Kept))
	}
	return s.Op.String() + " " + strings.Join(out, " ")
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
	if have := tell(s); have != want {
		t.Fatalf("have %q\nwant %q", have, want)
	}
	return s
}

// wantNone fails if a snapshot comes within d. It is for fake time.
func wantNone(t *testing.T, out <-chan pod.Snapshot, d time.Duration) {
	t.Helper()
	select {
	case s := <-out:
		t.Fatalf("unexpected %q", tell(s))
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

func TestABadDocumentKeepsItsLastGoodPod(t *testing.T) {
	in := intake{node: "n", source: pod.SourceFile}
	pods := func(names ...string) []*v1.Pod {
		var text []string
		for _, name := range names {
			text = append(text, web(name, "old"))
		}
		out, refused := in.take("m.yaml", []byte(strings.Join(text, "---\n")), nil)
		if len(refused) > 0 {
			t.Fatalf("unexpected: %v", refused)
		}
		return out
	}
	for name, c := range map[string]struct {
		last []*v1.Pod
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
	} {
		t.Run(name, func(t *testing.T) {
			p, refused := in.take("m.yaml", []byte(c.text), c.last)
			if have := tell(pod.Snapshot{Pods: p, Refused: refused}); have != c.want {
				t.Errorf("have %q\nwant %q", have, c.want)
			}
		})
	}
}

func TestLastGoodComesBackTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sources", "file.json")
	in := intake{node: "n", source: pod.SourceFile}
	pods, _ := in.take("/m/a.yaml", []byte(web("a", "x:1")+"---\n"+web("b", "x:2")), nil)
	first := lastGood{path: path, in: in}
	must(t, first.save(memory{mounted: true, pods: map[string][]*v1.Pod{"/m/a.yaml": pods}}))

	second := lastGood{path: path, in: in}
	m, err := second.load()
	must(t, err)
	if !m.mounted || !reflect.DeepEqual(m.pods["/m/a.yaml"], pods) {
		t.Errorf("have %+v\nwant %+v", m.pods["/m/a.yaml"], pods)
	}

	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v", info.Mode())
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
	if m, err := other.load(); err != nil || len(m.pods) > 0 {
		t.Errorf("have %v, %v", m, err)
	}
}

func TestACorruptStateIsSetAside(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":  "{",
		"version":  `{"version": 99}`,
		"bad pod":  `{"version": 1, "node": "n", "origins": {"/m/a": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "../x"}}]}}`,
		"no pod":   `{"version": 1, "node": "n", "origins": {"/m/a": [7]}}`,
		"emptied":  "",
		"bad list": `{"version": 1, "node": "n", "origins": []}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file.json")
			write(t, path, text)
			l := lastGood{path: path, in: intake{node: "n", source: pod.SourceFile}}
			m, err := l.load()
			if err == nil || len(m.pods) > 0 {
				t.Errorf("have %v, %v", m, err)
			}
			if kept, err := os.ReadFile(path + ".corrupt"); err != nil || string(kept) != text {
				t.Errorf("set aside: %q, %v", kept, err)
			}
			if m, err := l.load(); err != nil || len(m.pods) > 0 {
				t.Errorf("the second time: %v, %v", m, err)
			}
		})
	}
}

func TestNodeNamesAreChecked(t *testing.T) {
	for _, node := range []string{"", "a/b", "a_b"} {
		if _, err := NewFile(FileConfig{Path: "/m", Node: node, Every: time.Second, Log: quietLog()}); err == nil {
			t.Errorf("%q was taken", node)
		}
	}
	if have := manifest.StaticName("web", "Node"); have != "web-node" {
		t.Errorf("have %s", have)
	}
}
