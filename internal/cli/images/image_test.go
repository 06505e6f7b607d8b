package images

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"berth/internal/api"
	"berth/internal/cli/clitest"
	"berth/internal/lib/progress"
)

func TestAProgressBar(t *testing.T) {
	for name, c := range map[string]struct {
		width int
		want  string
	}{
		"a terminal": {80, eraseLine + "pull x [                        ] 0 of 4.0Ki" +
			eraseLine + "pull x [============            ] 2.0Ki of 4.0Ki, 1.0Ki/s, 2s left" + eraseLine + "pull x: done (2s)\n"},
		"a file": {0, "pull x 0 of 4.0Ki\npull x: done (2s)\n"}, // a line now and then
	} {
		var out bytes.Buffer
		now := time.Unix(0, 0)
		b := &progressBar{w: &out, what: "pull x", width: c.width, now: func() time.Time { return now }}
		b.began = now
		b.show(progress.Progress{})
		b.show(progress.Progress{Total: 4 << 10})
		now = now.Add(2 * time.Second)
		b.show(progress.Progress{Done: 2 << 10, Total: 4 << 10, Rate: 1 << 10, Remaining: 2 * time.Second})
		b.end(nil)
		if out.String() != c.want {
			t.Errorf("%s: got %q, want %q", name, out.String(), c.want)
		}
	}
	var out bytes.Buffer
	b := &progressBar{w: &out, now: time.Now}
	b.end(errors.New("no"))
	if out.Len() != 0 {
		t.Errorf("got %q", out.String())
	}
}

func TestAnArchiveIsCountedAsItIsRead(t *testing.T) {
	var last progress.Progress
	r := newCountingReader(strings.NewReader("archive"), 7, func(p progress.Progress) { last = p })
	if _, err := io.ReadAll(r); err != nil || last.Done != 7 || last.Total != 7 {
		t.Errorf("got %+v, %v", last, err)
	}
}

func TestPrintGC(t *testing.T) {
	var out bytes.Buffer
	err := printGC(&out, &api.GCReport{
		DryRun: true, Capacity: 100 << 20, Available: 10 << 20, Low: 80, Freed: 5 << 20, Missing: 5 << 20,
		Items: []api.GCItem{{Name: "localhost/a:1", Size: 5 << 20, Remove: true, Message: "not used for 1h"}, {Name: "localhost/b:1", Message: "it is pinned"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"localhost/a:1", "not used for 1h", "it is pinned", "90% full", "would free 5.0Mi", "To come down to 80%, 5.0Mi more"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, out.String())
		}
	}
}

func TestImageTables(t *testing.T) {
	a := clitest.StartAgent(t, root, clitest.WithInventory)
	a.WantOutput(t, "get images", `
NAME            TAG      IMAGE ID       SIZE    PINNED   PODS
localhost/app   1        0123456789ab   5.0Mi   False    2
localhost/app   2        0123456789ab   5.0Mi   False    2
localhost/old   <none>   fedc           100     True     0
`)
	a.WantOutput(t, "get images -o wide", `
NAME            TAG      IMAGE ID                  SIZE    PINNED   PODS   USED BY
localhost/app   1        sha256:0123456789abcdef   5.0Mi   False    2      x/web,y/db
localhost/app   2        sha256:0123456789abcdef   5.0Mi   False    2      x/web,y/db
localhost/old   <none>   sha256:fedc               100     True     0      <none>
`)
	a.WantOutput(t, "get images -o name", "localhost/app:1\nlocalhost/app:2\nlocalhost/old@sha256:aa\n")
	a.WantOutput(t, "get images -o jsonpath={.items[0].id}", "sha256:0123456789abcdef")
}

func TestSplitImage(t *testing.T) {
	for full, want := range map[string][2]string{
		"localhost/app:1": {"localhost/app", "1"}, "localhost:5000/app": {"localhost:5000/app", ""}, "localhost/a@sha256:b": {"localhost/a", ""}, "": {"", ""},
	} {
		if name, tag := splitImage(full); [2]string{name, tag} != want {
			t.Errorf("%s: got %q, %q", full, name, tag)
		}
	}
}
