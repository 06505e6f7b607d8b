package ociarchive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func hello() Image {
	return Image{
		Tag: "localhost/hello:1",
		Files: []File{
			{Path: "/usr/bin/hello", Mode: 0o755, Data: []byte("program")},
			{Path: "/etc/motd", Mode: 0o644, Data: []byte("welcome")},
		},
		Entrypoint:   []string{"/usr/bin/hello"},
		Cmd:          []string{"serve"},
		Env:          []string{"A=1"},
		ExposedPorts: []string{"8080/tcp"},
		User:         "1000",
		StopSignal:   "SIGINT",
	}
}

func TestOCIArchiveLeadsFromNameToFiles(t *testing.T) {
	archive := untar(t, mustWrite(t, Write, hello()))

	var layout struct{ ImageLayoutVersion string }
	decode(t, archive["oci-layout"], &layout)
	if layout.ImageLayoutVersion != "1.0.0" {
		t.Errorf("layout version %q", layout.ImageLayoutVersion)
	}

	var idx index
	decode(t, archive["index.json"], &idx)
	if len(idx.Manifests) != 1 {
		t.Fatalf("index has %d images, want 1", len(idx.Manifests))
	}
	image := idx.Manifests[0]
	wantNames := map[string]string{
		"io.containerd.image.name":          "localhost/hello:1",
		"org.opencontainers.image.ref.name": "1",
	}
	if !reflect.DeepEqual(image.Annotations, wantNames) {
		t.Errorf("names %v, want %v", image.Annotations, wantNames)
	}
	if *image.Platform != (platform{Architecture: runtime.GOARCH, OS: "linux"}) {
		t.Errorf("platform %+v", *image.Platform)
	}

	var m manifest
	decode(t, blob(t, archive, image), &m)
	if len(m.Layers) != 1 {
		t.Fatalf("manifest has %d layers, want 1", len(m.Layers))
	}
	checkImage(t, blob(t, archive, m.Config), blob(t, archive, m.Layers[0]))
}

func TestDockerArchiveLeadsFromNameToFiles(t *testing.T) {
	archive := untar(t, mustWrite(t, WriteDocker, hello()))

	var images []dockerManifest
	decode(t, archive["manifest.json"], &images)
	if len(images) != 1 || len(images[0].Layers) != 1 {
		t.Fatalf("manifest %+v, want one image of one layer", images)
	}
	if !slices.Equal(images[0].RepoTags, []string{"localhost/hello:1"}) {
		t.Errorf("tags %v", images[0].RepoTags)
	}
	config := archive[images[0].Config]
	if images[0].Config != hexDigest(config)+".json" {
		t.Errorf("config %s is not named after its digest", images[0].Config)
	}
	checkImage(t, config, archive[images[0].Layers[0]])
}

// checkImage compares the config and the layer with the image that hello returns.
func checkImage(t *testing.T, config, layer []byte) {
	t.Helper()
	var got imageConfig
	decode(t, config, &got)
	want := imageConfig{
		Created:  "1970-01-01T00:00:00Z",
		platform: platform{Architecture: runtime.GOARCH, OS: "linux"},
		Config: runConfig{
			User:         "1000",
			ExposedPorts: map[string]struct{}{"8080/tcp": {}},
			Env:          []string{"A=1"},
			Entrypoint:   []string{"/usr/bin/hello"},
			Cmd:          []string{"serve"},
			StopSignal:   "SIGINT",
		},
		RootFS: rootFS{Type: "layers", DiffIDs: []string{digest(layer)}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("config\n%+v, want\n%+v", got, want)
	}

	var names []string
	for _, h := range tarEntries(t, layer) {
		names = append(names, h.FileInfo().Mode().String()+" "+h.Name)
		if h.Uid != 0 || h.Gid != 0 || !h.ModTime.Equal(time.Unix(0, 0)) {
			t.Errorf("%s belongs to %d:%d and is of %v", h.Name, h.Uid, h.Gid, h.ModTime)
		}
	}
	wantNames := []string{
		"drwxr-xr-x etc/",
		"-rw-r--r-- etc/motd",
		"drwxr-xr-x usr/",
		"drwxr-xr-x usr/bin/",
		"-rwxr-xr-x usr/bin/hello",
	}
	if !slices.Equal(names, wantNames) {
		t.Errorf("layer holds\n%s, want\n%s", strings.Join(names, "\n"), strings.Join(wantNames, "\n"))
	}
	files := untar(t, layer)
	if string(files["usr/bin/hello"]) != "program" || string(files["etc/motd"]) != "welcome" {
		t.Errorf("contents of the layer: %q", files)
	}
}

func TestSameImageGivesSameBytes(t *testing.T) {
	reordered := hello()
	slices.Reverse(reordered.Files)
	for name, write := range map[string]writer{"oci": Write, "docker": WriteDocker} {
		if !bytes.Equal(mustWrite(t, write, hello()), mustWrite(t, write, reordered)) {
			t.Errorf("%s: the order of the files shows in the archive", name)
		}
	}
}

func TestBadImageIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Image)
		want   string
	}{
		"no tag":             {func(i *Image) { i.Tag = "localhost/hello" }, "give the tag in full"},
		"port is no tag":     {func(i *Image) { i.Tag = "localhost:5000/hello" }, "give the tag in full"},
		"no host":            {func(i *Image) { i.Tag = "hello:1" }, "give the tag in full"},
		"by digest":          {func(i *Image) { i.Tag = "localhost/hello@sha256:00" }, "give the tag in full"},
		"environment":        {func(i *Image) { i.Env = []string{"A"} }, `environment "A"`},
		"relative path":      {func(i *Image) { i.Files[0].Path = "bin/hello" }, "must be absolute"},
		"path upwards":       {func(i *Image) { i.Files[0].Path = "/../hello" }, "must be absolute and plain"},
		"the root itself":    {func(i *Image) { i.Files[0].Path = "/" }, "must be absolute"},
		"not a file":         {func(i *Image) { i.Files[0].Mode |= 1 << 31 }, "not that of a regular file"},
		"twice":              {func(i *Image) { i.Files[0].Path = "/etc/motd" }, "/etc/motd is there twice"},
		"file and folder":    {func(i *Image) { i.Files[0].Path = "/etc/motd/x" }, "/etc/motd is also the folder"},
		"named in the error": {func(i *Image) { i.Tag = "bad" }, `image "bad"`},
	} {
		t.Run(name, func(t *testing.T) {
			img := hello()
			tc.change(&img)
			var out bytes.Buffer
			err := Write(&out, img)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
			if out.Len() > 0 {
				t.Errorf("%d bytes were written all the same", out.Len())
			}
		})
	}
}

func TestFullDiskIsReported(t *testing.T) {
	full := errors.New("disk is full")
	err := Write(failing{full}, hello())
	if !errors.Is(err, full) {
		t.Errorf("error %v, want %v in it", err, full)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

type writer func(io.Writer, Image) error

func mustWrite(t *testing.T, write writer, img Image) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out, img); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// blob finds what d describes, and checks it against its digest and size.
func blob(t *testing.T, archive map[string][]byte, d descriptor) []byte {
	t.Helper()
	data, ok := archive["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
	if !ok {
		t.Fatalf("no blob %s", d.Digest)
	}
	if digest(data) != d.Digest || len(data) != d.Size {
		t.Errorf("blob %s has digest %s, size %d instead of %d", d.Digest, digest(data), len(data), d.Size)
	}
	return data
}

func untar(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, e := range tarEntries(t, data) {
		files[e.Name] = e.data
	}
	return files
}

type tarEntry struct {
	*tar.Header
	data []byte
}

func tarEntries(t *testing.T, archive []byte) []tarEntry {
	t.Helper()
	var all []tarEntry
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tarEntry{header, data})
	}
}

func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("decode %q: %v", data, err)
	}
}
