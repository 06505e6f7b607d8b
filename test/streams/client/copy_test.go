package client_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/streams"
)

// tree makes files in a folder. A name that ends with a slash is a folder, and
// content that begins with "-> " a link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, isLink := strings.CutPrefix(content, "-> "); isLink {
			err = os.Symlink(target, path)
		} else if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = os.WriteFile(path, []byte(content), 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shape returns the files of a directory as text, to compare a copy with its original.
func shape(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		switch {
		case d.IsDir():
			rel += "/"
		case d.Type() == fs.ModeSymlink:
			target, _ := os.Readlink(path)
			rel += "->" + target
		default:
			content, _ := os.ReadFile(path)
			rel += "=" + string(content)
		}
		all = append(all, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func TestCopyFrom(t *testing.T) {
	there := tree(t, map[string]string{
		"etc/app.conf": "setting", "srv/a": "A", "srv/sub/b": "B", "srv/l": "-> sub/b", "srv/up": "-> ../etc", "srv/abs": "-> /etc/passwd", "srv/empty/": "",
		"-odd": "odd",
	})
	if err := os.Chmod(filepath.Join(there, "srv/sub/b"), 0o751); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(ctx context.Context, p streams.Process) error { return streams.OnThisMachine(ctx, there, p) })
	n := w.local(t)
	cases := []struct {
		name, from, to string
		here           map[string]string
		want           string
	}{
		{"a file to a new name", "etc/app.conf", "my.conf", nil, "my.conf=setting"},
		{"a file over another", "etc/app.conf", "my.conf", map[string]string{"my.conf": "something longer"}, "my.conf=setting"},
		{"a file into a folder", there + "/etc/app.conf", ".", nil, "app.conf=setting"},
		{"a file over a link", "etc/app.conf", "my.conf", map[string]string{"my.conf": "-> ../outside"}, "my.conf=setting"},
		{"a folder to a new name", "srv", "site", nil, "site/ site/a=A site/empty/ site/l->sub/b site/sub/ site/sub/b=B"},
		{"what a folder holds", "srv/..", ".", nil, "-odd=odd etc/ etc/app.conf=setting srv/ srv/a=A srv/empty/ srv/l->sub/b srv/sub/ srv/sub/b=B srv/up->../etc"},
		{"a name like an option", "-odd", ".", nil, "-odd=odd"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			here := tree(t, c.here)
			var warned []string
			err := n.CopyFrom(t.Context(), web(t, n), "app", c.from, filepath.Join(here, c.to), func(text string) { warned = append(warned, text) })
			if got := shape(t, here); err != nil || got != c.want {
				t.Errorf("got %v,\n%s, want\n%s", err, got, c.want)
			}
			if leftOut := strings.Contains(c.want, "sub/b"); leftOut != (len(warned) > 0) {
				t.Errorf("warned of %q", warned)
			}
			if info, err := os.Stat(filepath.Join(here, "site/sub/b")); err == nil && info.Mode() != 0o751 {
				t.Errorf("got mode %v", info.Mode())
			}
		})
	}
	for from, want := range map[string]string{"nope": "tar in container app failed:", "etc/nope": "Cannot stat: No such file"} {
		wantError(t, n.CopyFrom(t.Context(), web(t, n), "app", from, t.TempDir(), nil), want)
	}
	wantError(t, n.CopyFrom(t.Context(), web(t, n), "app", "srv", "/nonexistent/x", nil), "open the destination")
	wantError(t, n.CopyFrom(t.Context(), web(t, n), "app", "srv", filepath.Join(t.TempDir(), "no")+"/", nil), "is not a folder")
}

func TestCopyTo(t *testing.T) {
	here := tree(t, map[string]string{"conf": "setting", "site/a": "A", "site/l": "-> a", "site/sub/b": "B", "link": "-> conf"})
	if err := os.Chmod(filepath.Join(here, "site/a"), 0o751); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name, from, to string
		there          map[string]string
		want           string
	}{
		{"a file to a new name", "conf", "my.conf", nil, "my.conf=setting"},
		{"a file into a folder", "conf", "etc", map[string]string{"etc/": ""}, "etc/ etc/conf=setting"},
		{"a file into what has to be a folder", "conf", "etc/", map[string]string{"etc/": ""}, "etc/ etc/conf=setting"},
		{"what a link leads to", "link", "my.conf", nil, "my.conf=setting"},
		{"a folder", "site", "www", nil, "www/ www/a=A www/l->a www/sub/ www/sub/b=B"},
		{"a folder into a folder", "site/", "srv", map[string]string{"srv/": ""}, "srv/ srv/site/ srv/site/a=A srv/site/l->a srv/site/sub/ srv/site/sub/b=B"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			there := tree(t, c.there)
			w := newWorld(t, func(ctx context.Context, p streams.Process) error { return streams.OnThisMachine(ctx, there, p) })
			n := w.local(t)
			err := n.CopyTo(t.Context(), web(t, n), "app", here+"/"+c.from, c.to)
			if got := shape(t, there); err != nil || got != c.want {
				t.Errorf("got %v,\n%s, want\n%s", err, got, c.want)
			}
			if info, err := os.Stat(filepath.Join(there, "www/a")); err == nil && info.Mode() != 0o751 {
				t.Errorf("got mode %v", info.Mode())
			}
		})
	}
	w := newWorld(t, func(ctx context.Context, p streams.Process) error { return streams.OnThisMachine(ctx, here, p) })
	n := w.local(t)
	wantError(t, n.CopyTo(t.Context(), web(t, n), "app", here+"/nope", "x"), "nothing to copy")
	wantError(t, n.CopyTo(t.Context(), web(t, n), "app", here+"/conf", "no/such/folder"), "tar in container app failed", "No such file")
}

func TestCopyWithoutTar(t *testing.T) {
	for _, how := range []error{errors.New(`OCI runtime exec failed: exec: "tar": executable file not found in $PATH: unknown`), streams.Exit(127)} {
		w := newWorld(t, func(context.Context, streams.Process) error { return how })
		n := w.local(t)
		dir := tree(t, map[string]string{"a": "A"})
		const want = "container app of pod web has no 'tar', which cp needs: add a container that has with 'berth debug web"
		wantError(t, n.CopyFrom(t.Context(), web(t, n), "app", "/a", dir, nil), want)
		wantError(t, n.CopyTo(t.Context(), web(t, n), "app", dir+"/a", "/a"), want)
	}
}

// TestArchivesThatLie is about containers that send files that were not asked for.
func TestArchivesThatLie(t *testing.T) {
	file := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o4755} }
	link := func(name, target string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
	}
	hard := func(name, target string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: target}
	}
	dir := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755} }
	cases := []struct {
		name    string
		entries []tar.Header
		want    string // what is there
		fails   string // a part of the error
	}{
		{"up", []tar.Header{file("../evil")}, "", "not below what was asked for"},
		{"up from below", []tar.Header{file("x/../../evil")}, "", "not below what was asked for"},
		{"absolute", []tar.Header{file("/etc/evil")}, "", "not below what was asked for"},
		{"another name", []tar.Header{file("y")}, "", "not below what was asked for"},
		{"through a link of its own", []tar.Header{dir("x"), link("x/l", "/tmp"), file("x/l/evil")}, "x/ x/l/ x/l/evil=", ""},
		{"through a link inside", []tar.Header{dir("x"), dir("x/d"), link("x/l", "d"), file("x/l/evil")}, "x/ x/d/ x/l->d", "is not a folder"},
		{"over a link", []tar.Header{dir("x"), link("x/l", "y"), file("x/l")}, "x/ x/l=", ""},
		{"a link that goes down to go up", []tar.Header{dir("x"), dir("x/d"), link("x/d/s", ".."), link("x/l", "d/s/../../evil")}, "x/ x/d/ x/d/s->..", ""},
		{"the file of somebody else", []tar.Header{dir("x"), hard("x/h", "../secret")}, "x/", ""},
		{"the file of somebody else, absolute", []tar.Header{dir("x"), hard("x/h", "/etc/passwd")}, "x/", ""},
		{"the same file twice", []tar.Header{dir("x"), file("x/a"), hard("x/h", "x/a")}, "x/ x/a= x/h=", ""},
		{"a device", []tar.Header{dir("x"), {Name: "x/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}}, "x/", ""},
		{"nothing", nil, "", "nothing came out"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			outside := tree(t, map[string]string{"secret": "s", "here/": ""})
			w := newWorld(t, func(_ context.Context, p streams.Process) error {
				archive := tar.NewWriter(p.Out)
				for _, h := range c.entries {
					if err := archive.WriteHeader(&h); err != nil {
						return err
					}
				}
				return archive.Close()
			})
			n := w.local(t)
			err := n.CopyFrom(t.Context(), web(t, n), "app", "/x", filepath.Join(outside, "here"), func(string) {})
			if c.fails != "" {
				wantError(t, err, c.fails)
			} else if err != nil {
				t.Error(err)
			}
			if got := shape(t, filepath.Join(outside, "here")); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if err := os.RemoveAll(filepath.Join(outside, "here")); err != nil {
				t.Fatal(err)
			}
			if got := shape(t, outside); got != "secret=s" {
				t.Errorf("outside is %q", got)
			}
		})
	}
	t.Run("garbage", func(t *testing.T) {
		w := newWorld(t, func(_ context.Context, p streams.Process) error {
			_, err := p.Out.Write(bytes.Repeat([]byte("garbage "), 1<<10))
			return err
		})
		n := w.local(t)
		wantError(t, n.CopyFrom(t.Context(), web(t, n), "app", "/x", t.TempDir(), nil), "read what the container sends")
	})
}
