package bundle

import (
	"compress/gzip"
	"io"
	"strings"
	"testing"
)

func TestNamesInAnArchive(t *testing.T) {
	index := func(annotation, name string) string {
		return archiveOf(t, "./index.json", `{"manifests":[{"annotations":{"`+annotation+`":"`+name+`"}}]}`)
	}
	const containerdName, tag = "io.containerd.image.name", "org.opencontainers.image.ref.name"
	for name, test := range map[string]struct{ archive, says string }{
		"full name":              {index(containerdName, "localhost/hello:1"), ""},
		"full name, common":      {index(tag, "localhost:5000/hello:1"), ""},
		"tag alone":              {index(tag, "v1.2"), ""},
		"no name":                {index("other", "x"), ""},
		"no index":               {archiveOf(t, "manifest.json", "[]"), ""},
		"no host":                {index(containerdName, "hello:1"), "save the image as localhost/hello:1"},
		"no host, common":        {index(tag, "hello:1"), "save the image as localhost/hello:1"},
		"no host, but a folder":  {index(tag, "team/hello:1"), "save the image as localhost/team/hello:1"},
		"packed, and no host":    {gzipped(t, index(tag, "hello:1")), "save the image as localhost/hello:1"},
		"cut off":                {index(tag, "v1.2")[:520], "not complete"},
		"packed, and cut off":    {gzipped(t, index(tag, "v1.2"))[:60], "not complete"},
		"empty":                  {"", "not complete"},
		"index that is not JSON": {archiveOf(t, "index.json", "hello"), "not complete"},
		"index of another shape": {archiveOf(t, "index.json", `{"manifests":3}`), "not complete"},
	} {
		t.Run(name, func(t *testing.T) {
			r := strings.NewReader(test.archive)
			err := checkArchive(r)
			if test.says == "" && err != nil {
				t.Fatal(err)
			}
			if test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Fatalf("got %v, want an error with %q", err, test.says)
			}
			if rest, _ := io.ReadAll(r); err == nil && string(rest) != test.archive {
				t.Error("the archive is not at its start again")
			}
		})
	}
}

func gzipped(t *testing.T, content string) string {
	t.Helper()
	var out strings.Builder
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
