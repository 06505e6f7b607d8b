package config

import (
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

func (l *loader) sources() {
	const standard, least, most = 20 * time.Second, time.Second, 24 * time.Hour
	l.c.FileEvery = l.duration("fileCheckFrequency", l.file.FileCheckFrequency.Duration, standard, least, most)
	l.c.HTTPEvery = l.duration("httpCheckFrequency", l.file.HTTPCheckFrequency.Duration, standard, least, most)

	if folder := l.pick(flagManifests, l.flags.manifests, "staticPodPath", l.file.StaticPodPath); folder.value != "" {
		l.c.Manifests = l.path(folder)
	}
	u := l.pick(flagURL, l.flags.url, "staticPodURL", l.file.StaticPodURL)
	l.c.ManifestURL = u.value
	if u.value != "" {
		l.checkURL(u)
	}
	l.headers()
	if l.c.Manifests == "" && l.c.ManifestURL == "" {
		l.fail("--"+flagManifests, "there is nowhere to take pods from: give a folder here, or --%s", flagURL)
	}
}

func (l *loader) checkURL(c choice) {
	u, err := url.Parse(c.value)
	if err != nil {
		l.fail(c.name, "it is not a URL") // the error would repeat it, password and all
		return
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		l.fail(c.name, "%q must begin with http:// or https:// and name a host", u.Redacted())
	}
}

// headers never repeats a value: it may be a password.
func (l *loader) headers() {
	header, name := http.Header{}, "--"+flagHeader
	if l.flags.changed(flagHeader) {
		for _, text := range l.flags.headers {
			key, value, ok := strings.Cut(text, ":")
			if !ok {
				l.fail(name, "a header is written as name:value, and one has no colon")
				continue
			}
			header.Add(strings.TrimSpace(key), strings.TrimSpace(value))
		}
	} else if len(l.file.StaticPodURLHeader) > 0 {
		name = l.file.named("staticPodURLHeader")
		for key, values := range l.file.StaticPodURLHeader {
			for _, value := range values {
				header.Add(key, value)
			}
		}
	}
	if len(header) == 0 {
		return
	}
	for key, values := range header {
		if wrong := validation.IsHTTPHeaderName(key); len(wrong) > 0 {
			l.fail(name, "%q is not the name of a header: %s", key, wrong[0])
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				l.fail(name, "the value of header %q holds control characters", key)
			}
		}
	}
	if l.c.ManifestURL == "" {
		l.fail(name, "there is no URL to send headers to: give --%s", flagURL)
	}
	l.c.ManifestHeader = header
}

func (l *loader) runtime() {
	l.c.RuntimeTimeout = l.duration("runtimeRequestTimeout", l.file.RuntimeRequestTimeout.Duration, 2*time.Minute, time.Second, time.Hour)
	runtime := l.pick(flagRuntime, l.flags.runtime, "containerRuntimeEndpoint", l.file.ContainerRuntimeEndpoint)
	images := l.pick(flagImages, l.flags.images, "imageServiceEndpoint", l.file.ImageServiceEndpoint)
	l.c.RuntimeEndpoint = l.endpoint(runtime)
	l.c.ImageEndpoint = l.endpoint(images)
	if images.value == "" {
		l.c.ImageEndpoint = l.c.RuntimeEndpoint
	} else if runtime.value == "" {
		l.fail(images.name, "it needs --%s beside it: the runtime that berth starts has its own image service", flagRuntime)
	}
}

// endpoint checks the address of a socket.
func (l *loader) endpoint(c choice) string {
	const scheme, longest = "unix://", 107
	if c.value == "" {
		return ""
	}
	path, ok := strings.CutPrefix(c.value, scheme)
	switch {
	case !ok && filepath.IsAbs(c.value):
		l.fail(c.name, "%q must be written as %s%s", c.value, scheme, c.value)
	case !ok || !filepath.IsAbs(path):
		l.fail(c.name, "%q must be a socket of this machine, as in unix:///run/containerd/containerd.sock", c.value)
	case len(path) > longest:
		l.fail(c.name, "the path of a socket can't be longer than %d bytes", longest)
	}
	return c.value
}
