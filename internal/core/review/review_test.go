package review

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// manifestOf is a pod with one container, and more of its spec.
func manifestOf(name, more string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Pod
metadata:
  name: %s
spec:
  containers:
  - name: app
    image: localhost/app:1
%s`, name, more)
}

func read(t *testing.T, files ...File) *Result {
	t.Helper()
	r, err := Read(files, "box")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func file(origin string, data []byte) File { return File{Origin: origin, Data: data} }

func TestRead(t *testing.T) {
	cases := []struct {
		name  string
		files []File
		pods  string
		want  []string // level origin:line pod message, of which the message is a part
	}{
		{"a good one", []File{file("a.yaml", manifestOf("web", ""))}, "default/web-box", nil},
		{
			"a field that is not there, with its line",
			[]File{file("a.yaml", manifestOf("web", "  nonsense: 1\n"))},
			"",
			[]string{"error a.yaml:9 default/web-box nonsense"},
		},
		{
			"a feature that is not there yet",
			[]File{file("a.yaml", manifestOf("web", "  securityContext: {windowsOptions: {runAsUserName: x}}\n"))},
			"default/web-box",
			[]string{"error a.yaml:0 default/web-box not supported yet: spec.securityContext.windowsOptions"},
		},
		{
			"two of one name",
			[]File{file("a.yaml", manifestOf("web", "")), file("b.yaml", manifestOf("web", "  hostname: x\n"))},
			"default/web-box",
			[]string{"error b.yaml:0 default/web-box already defined"},
		},
		{
			"the same one twice in one file",
			[]File{file("a.yaml", []byte(string(manifestOf("web", ""))+"---\n"+string(manifestOf("web", ""))))},
			"default/web-box",
			[]string{"error a.yaml:0 default/web-box already belongs"},
		},
		{
			"two that want one port",
			[]File{
				file("a.yaml", manifestOf("web", "    ports: [{containerPort: 80, hostPort: 8080}]\n")),
				file("b.yaml", manifestOf("other", "    ports: [{containerPort: 80, hostPort: 8080}]\n")),
			},
			"default/web-box default/other-box",
			[]string{"error b.yaml:0 default/other-box (NodePorts)"},
		},
		{
			"a setting that has to be allowed",
			[]File{file("a.yaml", manifestOf("web", "  securityContext: {sysctls: [{name: net.core.somaxconn, value: \"1\"}]}\n"))},
			"default/web-box",
			[]string{"warning a.yaml:0 default/web-box allowedUnsafeSysctls"},
		},
		{
			"what is seldom meant",
			[]File{file("a.yaml", []byte(strings.Replace(string(manifestOf("web",
				"  nodeSelector: {a: b}\n  terminationGracePeriodSeconds: 0\n  volumes: [{name: big, emptyDir: {medium: Memory}}]\n")), "app:1", "app", 1)))},
			"default/web-box",
			[]string{
				"warning a.yaml:0 default/web-box nodeSelector", "warning a.yaml:0 default/web-box is 0",
				"warning a.yaml:0 default/web-box in memory", "warning a.yaml:0 default/web-box mounted by no container",
				"warning a.yaml:0 default/web-box may be another one tomorrow",
			},
		},
		{"an empty one", []File{file("a.yaml", []byte(" \n"))}, "", []string{"error a.yaml:0  the manifest is empty"}},
		{"one that can't be read", []File{{Origin: "a.yaml", Err: errors.New("no rights")}}, "", []string{"error a.yaml:0  no rights"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := read(t, c.files...)
			var refs []string
			for _, p := range r.Pods {
				refs = append(refs, pod.Ref(p.Pod))
			}
			if got := strings.Join(refs, " "); got != c.pods {
				t.Errorf("got pods %q, want %q", got, c.pods)
			}
			if len(r.Findings) != len(c.want) {
				t.Fatalf("got %+v, want %d findings", r.Findings, len(c.want))
			}
			for i, f := range r.Findings {
				want := strings.SplitN(c.want[i], " ", 4)
				if got := fmt.Sprintf("%s %s:%d %s", f.Level, f.Origin, f.Line, f.Pod); got != strings.Join(want[:3], " ") || !strings.Contains(f.Message, want[3]) {
					t.Errorf("got %q %q, want %q", got, f.Message, c.want[i])
				}
			}
			if got, want := r.Failed(), strings.Contains(strings.Join(c.want, " "), "error"); got != want {
				t.Errorf("failed: %v", got)
			}
		})
	}
}

func TestFloats(t *testing.T) {
	for image, want := range map[string]bool{
		"app": true, "app:latest": true, "localhost:5000/app": true, "app:1": false, "localhost:5000/app:1": false, "app@sha256:ab": false,
	} {
		if got := floats(image); got != want {
			t.Errorf("%s: got %v", image, got)
		}
	}
}

// running returns the pods of manifests as an agent reports them.
func running(t *testing.T, files ...File) []*v1.Pod {
	t.Helper()
	var out []*v1.Pod
	for _, p := range read(t, files...).Pods {
		p.Annotations[pod.AnnotationSeen] = "2026-01-02T03:04:05Z"
		p.Status.Phase = v1.PodRunning
		out = append(out, p.Pod)
	}
	return out
}

func TestChanges(t *testing.T) {
	web, db := manifestOf("web", ""), manifestOf("db", "")
	fixed := func(text []byte) []byte {
		return []byte(strings.Replace(string(text), "  name: web\n", "  name: web\n  uid: one\n", 1))
	}
	edited := func(text []byte, from, to string) []byte {
		out := strings.Replace(string(text), from, to, 1)
		if out == string(text) {
			t.Fatalf("there is no %q in %s", from, text)
		}
		return []byte(out)
	}
	cases := []struct {
		name      string
		have      []File
		want      []File
		whole     bool
		described []string // kind pod: note [restarts]
	}{
		{"the same from another folder", []File{file("/etc/web.yaml", web)}, []File{file("web.yaml", append([]byte("# new\n"), web...))}, true, nil},
		{"a new one", nil, []File{file("web.yaml", web)}, true, []string{"started default/web-box: with 1 containers []"}},
		{"one that is gone", []File{file("a", web), file("b", db)}, []File{file("a", web)}, true, []string{"removed default/db-box: stopped within 30 s []"}},
		{"a single file says nothing of others", []File{file("a", web), file("b", db)}, []File{file("a", web)}, false, nil},
		{
			"an edit makes another pod",
			[]File{file("a", web)},
			[]File{file("a", edited(web, "app:1", "app:2"))},
			true,
			[]string{"replaced default/web-box: stopped within 30 s, then started anew [app]"},
		},
		{
			"with a UID of its own, only a container",
			[]File{file("a", fixed(web))},
			[]File{file("a", fixed(edited(web, "app:1", "app:2")))},
			true,
			[]string{"altered default/web-box: only the containers that changed are restarted [app]"},
		},
		{
			"with a UID of its own, all of it",
			[]File{file("a", fixed(web))},
			[]File{file("a", fixed(manifestOf("web", "  hostNetwork: true\n")))},
			true,
			[]string{"altered default/web-box: its sandbox is made anew, and with it all containers [app]"},
		},
		{
			"with a UID of its own, a label",
			[]File{file("a", fixed(web))},
			[]File{file("a", edited(fixed(web), "  uid: one\n", "  uid: one\n  labels: {a: b}\n"))},
			true,
			[]string{"altered default/web-box: no container is restarted []"},
		},
		{"a broken edit keeps what runs", []File{file("a", web)}, []File{file("a", manifestOf("web", "  nonsense: 1\n"))}, true, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			changes, err := read(t, c.want...).Changes(running(t, c.have...), c.whole)
			if err != nil {
				t.Fatal(err)
			}
			var described []string
			for _, ch := range changes {
				described = append(described, fmt.Sprintf("%s %s: %s %v", ch.Kind, ch.Pod, ch.Note, ch.Restarts))
			}
			if strings.Join(described, "\n") != strings.Join(c.described, "\n") {
				t.Errorf("got %q, want %q", described, c.described)
			}
		})
	}
}

func TestChangesOfAPodOfAnotherSource(t *testing.T) {
	have := running(t, file("a", manifestOf("web", "")))
	have[0].Annotations[pod.AnnotationSource] = pod.SourceHTTP
	changes, err := read(t, file("a", manifestOf("web", ""))).Changes(have, true)
	if err != nil || len(changes) != 1 || changes[0].Kind != Refused || !strings.Contains(changes[0].Note, "source http") {
		t.Errorf("got %+v (%v)", changes, err)
	}
}

func TestWhatADebugAddedIsNoChange(t *testing.T) {
	web := file("a", manifestOf("web", ""))
	have := running(t, web)
	have[0].Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", Image: "localhost/tools:1"}}}
	if changes, err := read(t, web).Changes(have, true); err != nil || len(changes) != 0 {
		t.Errorf("got %+v (%v)", changes, err)
	}
	if len(have[0].Spec.EphemeralContainers) != 1 {
		t.Error("the pod was changed")
	}
}

func TestTheDiffOfAnEdit(t *testing.T) {
	web := manifestOf("web", "")
	changes, err := read(t, file("web.yaml", []byte(strings.Replace(string(web), "app:1", "app:2", 1)))).Changes(running(t, file("a", web)), true)
	if err != nil {
		t.Fatal(err)
	}
	want := `--- running
+++ web.yaml
@@ -1,6 +1,6 @@
 spec:
   containers:
-  - image: localhost/app:1
+  - image: localhost/app:2
     imagePullPolicy: IfNotPresent
     name: app
     resources: {}
`
	if len(changes) != 1 || changes[0].Diff != want {
		t.Errorf("got %+v, want\n%s", changes, want)
	}
}

func TestUnified(t *testing.T) {
	lines := func(words string) string { return strings.ReplaceAll(words, " ", "\n") + "\n" }
	cases := []struct{ before, after, want string }{
		{"a b c", "a b c", ""},
		{"a b c d e f g h", "a b c d X f g h", "@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+X\n f\n g\n h\n"},
		{"a b c d e f g h i j k l", "X b c d e f g h i j k Y", "@@ -1,4 +1,4 @@\n-a\n+X\n b\n c\n d\n@@ -9,4 +9,4 @@\n i\n j\n k\n-l\n+Y\n"},
		{"a c d", "a b c d e", "@@ -1,3 +1,5 @@\n a\n+b\n c\n d\n+e\n"},
		{"a", "b", "@@ -1,1 +1,1 @@\n-a\n+b\n"},
	}
	for _, c := range cases {
		want := c.want
		if want != "" {
			want = "--- x\n+++ y\n" + want
		}
		if got := unified("x", "y", lines(c.before), lines(c.after)); got != want {
			t.Errorf("%s → %s: got\n%swant\n%s", c.before, c.after, got, want)
		}
	}
}

func TestTextsThatDifferTooMuchAreShownWhole(t *testing.T) {
	before, after := strings.Repeat("a\n", 3000), strings.Repeat("b\n", 3000)
	got := unified("x", "y", before, after)
	if strings.Count(got, "\n-a") != 3000 || strings.Count(got, "\n+b") != 3000 {
		t.Errorf("got %d and %d lines", strings.Count(got, "\n-a"), strings.Count(got, "\n+b"))
	}
}
