package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"berth/test/registry"
)

// The accounts of the images. The specs expect the second user of the list, and its group.
const (
	users = `root:x:0:0:root:/root:/bin/sh
user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/false
`
	groups = `root:x:0:
user-defined-in-image:x:1000:
group-defined-in-image:x:50000:user-defined-in-image
nobody:x:65534:
`
)

// private is part of the names of images that specs expect to be refused.
const private = "authenticated"

// layers are the parts of which all images are made.
type layers struct {
	base     registry.Layer // a shell with its commands
	agnhost  registry.Layer
	nnp      registry.Layer // a setuid program that tells its user ID
	kitten   registry.Layer
	nautilus registry.Layer
	pause    registry.Layer
}

// images are what machines pull.
type images struct {
	store   *registry.Registry
	names   []string // as the specs name them
	sandbox string   // the one for the sandboxes of pods
}

// image is how the containers of an image run, and what it is made of.
type image struct {
	registry.Config
	layers []registry.Layer
}

// byName returns our images by the last part of the names that upstream has for them. Those that are missing here
// are needed by none of the specs that we run.
func (l layers) byName() map[string]image {
	shell := []string{"sh"}
	webServer := registry.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"test-webserver"}}
	return map[string]image{
		"agnhost":           {registry.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}}, []registry.Layer{l.base, l.agnhost}},
		"busybox":           {registry.Config{Cmd: shell}, []registry.Layer{l.base}},
		"glibc-dns-testing": {registry.Config{Cmd: shell}, []registry.Layer{l.base}},
		"ipc-utils":         {registry.Config{Cmd: shell}, []registry.Layer{l.base}},
		"kitten":            {webServer, []registry.Layer{l.base, l.agnhost, l.kitten}},
		"nautilus":          {webServer, []registry.Layer{l.base, l.agnhost, l.nautilus}},
		"nginx":             {webServer, []registry.Layer{l.base, l.agnhost}},
		"nonewprivs":        {registry.Config{Cmd: []string{"nnp"}}, []registry.Layer{l.base, l.nnp}},
		"nonroot":           {registry.Config{Cmd: shell, User: "1234"}, []registry.Layer{l.base}},
		"pause":             {registry.Config{Entrypoint: []string{"/pause"}}, []registry.Layer{l.pause}},
		"perl":              {registry.Config{Cmd: shell}, []registry.Layer{l.base}},
	}
}

// makeLayers makes the layers of programs that make has built.
func makeLayers(bin string) (layers, error) {
	programs := filepath.Join(bin, "conformance", "images")
	base, err := baseFiles(programs)
	if err != nil {
		return layers{}, err
	}
	var l layers
	for _, part := range []struct {
		layer *registry.Layer
		files func() ([]registry.File, error)
	}{
		{&l.base, func() ([]registry.File, error) { return base, nil }},
		{&l.agnhost, func() ([]registry.File, error) { return agnhostFiles(programs) }},
		{&l.nnp, func() ([]registry.File, error) {
			return fromDisk(map[string]string{"usr/local/bin/nnp": filepath.Join(programs, "nonewprivs")}, 0o755|fs.ModeSetuid)
		}},
		{&l.kitten, func() ([]registry.File, error) { return demoFiles("kitten.jpg"), nil }},
		{&l.nautilus, func() ([]registry.File, error) { return demoFiles("nautilus.jpg"), nil }},
		{&l.pause, func() ([]registry.File, error) {
			return fromDisk(map[string]string{"pause": filepath.Join(bin, "libexec", "pause")}, 0o755)
		}},
	} {
		files, err := part.files()
		if err != nil {
			return layers{}, err
		}
		if *part.layer, err = registry.NewLayer(files, gzip.NoCompression); err != nil {
			return layers{}, err
		}
	}
	return l, nil
}

func baseFiles(programs string) ([]registry.File, error) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	commands, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the commands of busybox: %w", err)
	}
	files := []registry.File{
		{Path: "tmp", Mode: 0o777 | fs.ModeDir | fs.ModeSticky},
		{Path: "root", Mode: 0o700 | fs.ModeDir},
		{Path: "home/user-defined-in-image", Mode: 0o755 | fs.ModeDir},
		{Path: "etc/passwd", Mode: 0o644, Data: []byte(users)},
		{Path: "etc/group", Mode: 0o644, Data: []byte(groups)},
		{Path: "etc/nsswitch.conf", Mode: 0o644, Data: []byte("hosts: files dns\n")},
		{Path: "bin/bash", Mode: 0o755, Data: []byte("#!/bin/sh\nexec /bin/sh \"$@\"\n")}, // some specs start it in agnhost
	}
	own, err := fromDisk(map[string]string{"bin/busybox": busybox, "bin/utilities": filepath.Join(programs, "utilities")}, 0o755)
	if err != nil {
		return nil, err
	}
	files = append(files, own...)
	for _, name := range []string{"curl", "ipcs", "nmeter"} {
		files = append(files, registry.File{Path: "bin/" + name, Link: "utilities"})
	}
	for name := range strings.FieldsSeq(string(commands)) {
		if name != "busybox" {
			files = append(files, registry.File{Path: "bin/" + name, Link: "busybox"})
		}
	}
	return files, nil
}

func agnhostFiles(programs string) ([]registry.File, error) {
	files, err := fromDisk(map[string]string{"agnhost": filepath.Join(programs, "agnhost")}, 0o755)
	if err != nil {
		return nil, err
	}
	pair, err := fromDisk(map[string]string{
		"localhost.crt": filepath.Join(programs, "localhost.crt"), "localhost.key": filepath.Join(programs, "localhost.key"),
	}, 0o644)
	if err != nil {
		return nil, err
	}
	return append(append(files, pair...),
		registry.File{Path: "agnhost-2", Link: "agnhost"},
		registry.File{Path: "uploads", Mode: 0o755 | fs.ModeDir}), nil
}

// demoFiles are those by which specs recognise the web server of a picture: the name of the picture, and the distribution
// that upstream's image is based on.
func demoFiles(picture string) []registry.File {
	return []registry.File{
		{Path: "data.json", Mode: 0o644, Data: fmt.Appendf(nil, "{\"image\": %q}\n", picture)},
		{Path: "etc/os-release", Mode: 0o644, Data: []byte("PRETTY_NAME=\"in place of Alpine Linux\"\n")},
	}
}

// fromDisk reads files of this machine, by their paths in the image.
func fromDisk(sources map[string]string, mode fs.FileMode) ([]registry.File, error) {
	var files []registry.File
	for inside, source := range sources {
		data, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		files = append(files, registry.File{Path: inside, Mode: mode, Data: data})
	}
	return files, nil
}

// pushImages fills a registry with the images that a suite names.
func pushImages(bin, suite string) (images, error) {
	list, err := exec.Command(suite, "--list-images").Output()
	if err != nil {
		return images{}, fmt.Errorf("list the images of the suite: %w", err)
	}
	parts, err := makeLayers(bin)
	if err != nil {
		return images{}, fmt.Errorf("make images: %w", err)
	}
	known := parts.byName()
	pushed := images{store: registry.New()}
	for name := range strings.FieldsSeq(string(list)) {
		last := path.Base(repositoryOf(name))
		image, ok := known[last]
		if !ok || strings.Contains(name, private) {
			continue
		}
		_, local, _ := strings.Cut(name, "/") // without the host
		// Two tags of one image would have one id, and the runtime would report a container's image under either name.
		image.Labels = map[string]string{"name": local}
		if err := pushed.store.PushImage(local, image.Config, image.layers...); err != nil {
			return images{}, err
		}
		pushed.names = append(pushed.names, name)
		if last == "pause" {
			pushed.sandbox = name
		}
	}
	if pushed.sandbox == "" {
		return images{}, errors.New("the suite names no image for sandboxes")
	}
	return pushed, nil
}

// repositoryOf returns the name of an image without its tag.
func repositoryOf(image string) string {
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		return image[:i]
	}
	return image
}
