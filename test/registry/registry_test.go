package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestAnImageHasItsFilesWithTheirModes(t *testing.T) {
	layer, err := NewLayer([]File{
		{Path: "tmp", Mode: 0o777 | fs.ModeDir | fs.ModeSticky},
		{Path: "bin/su", Mode: 0o755 | fs.ModeSetuid, Data: []byte("program")},
		{Path: "bin/sh", Link: "su"},
	}, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	r := New()
	for _, name := range []string{"team/app:1", "team/other:2"} {
		if err := r.PushImage(name, Config{User: "1234"}, layer); err != nil {
			t.Fatal(err)
		}
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	decode(t, get(t, r, "/v2/team/other/manifests/2"), &manifest)
	var config struct{ Config Config }
	decode(t, get(t, r, "/v2/team/other/blobs/"+manifest.Config.Digest), &config)
	if config.Config.User != "1234" {
		t.Errorf("the image's user is %q, want 1234", config.Config.User)
	}
	packed, err := gzip.NewReader(bytes.NewReader(get(t, r, "/v2/team/other/blobs/"+manifest.Layers[0].Digest)))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]tar.Header{
		"tmp/":   {Typeflag: tar.TypeDir, Mode: 0o1777},
		"bin/su": {Typeflag: tar.TypeReg, Mode: 0o4755},
		"bin/sh": {Typeflag: tar.TypeSymlink, Linkname: "su"},
	}
	for archive := tar.NewReader(packed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		w, ok := want[header.Name]
		if !ok || header.Typeflag != w.Typeflag || header.Mode != w.Mode || header.Linkname != w.Linkname {
			t.Errorf("file %s of the layer is %+v, want %+v", header.Name, header, w)
		}
		delete(want, header.Name)
	}
	if len(want) > 0 {
		t.Errorf("the layer lacks %v", want)
	}
}

func get(t *testing.T, r *Registry, path string) []byte {
	t.Helper()
	answer := httptest.NewRecorder()
	r.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	if answer.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, answer.Code, answer.Body)
	}
	return answer.Body.Bytes()
}

func decode(t *testing.T, text []byte, value any) {
	t.Helper()
	if err := json.Unmarshal(text, value); err != nil {
		t.Fatal(err)
	}
}
