// Package registry is a container registry that keeps its images in memory, for tests. Images are made
// of files, and pushed without a network.
package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
)

// The media types of an image's parts.
const (
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// Registry answers the requests of the distribution protocol.
type Registry struct{ http.Handler }

// Config is how containers of an image run, unless their pod says otherwise.
type Config struct {
	Entrypoint []string          `json:",omitempty"`
	Cmd        []string          `json:",omitempty"`
	Env        []string          `json:",omitempty"`
	User       string            `json:",omitempty"`
	Labels     map[string]string `json:",omitempty"`
}

// New returns a registry without images. It always sends the whole of a blob: the library refuses a range
// without an end, with which a pull that was broken off goes on.
func New() *Registry {
	backend := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, 0)))
	return &Registry{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Range")
		backend.ServeHTTP(w, r)
	})}
}

// PushImage adds an image under a name without a host, such as team/app:1.
func (r *Registry) PushImage(name string, config Config, layers ...Layer) error {
	repository, tag, _ := strings.Cut(name, ":")
	var diffIDs []string
	var descriptors []descriptor
	for _, layer := range layers {
		d, err := r.pushBlob(repository, layer.packed, typeLayer)
		if err != nil {
			return fmt.Errorf("push %s: %w", name, err)
		}
		diffIDs, descriptors = append(diffIDs, layer.diffID), append(descriptors, d)
	}
	text, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffIDs},
	})
	if err != nil {
		return fmt.Errorf("push %s: %w", name, err)
	}
	configDescriptor, err := r.pushBlob(repository, text, typeConfig)
	if err != nil {
		return fmt.Errorf("push %s: %w", name, err)
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "config": configDescriptor, "layers": descriptors,
	})
	if err != nil {
		return fmt.Errorf("push %s: %w", name, err)
	}
	return r.send(http.MethodPut, "/v2/"+repository+"/manifests/"+tag, typeManifest, manifest)
}

// descriptor names a blob in a manifest.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
}

func (r *Registry) pushBlob(repository string, data []byte, mediaType string) (descriptor, error) {
	d := descriptor{MediaType: mediaType, Digest: digest(data), Size: len(data)}
	return d, r.send(http.MethodPost, "/v2/"+repository+"/blobs/uploads/?digest="+d.Digest, "application/octet-stream", data)
}

// send handles a request of a client that is this process.
func (r *Registry) send(method, path, contentType string, data []byte) error {
	request := httptest.NewRequest(method, path, bytes.NewReader(data))
	request.Header.Set("Content-Type", contentType)
	answer := httptest.NewRecorder()
	r.ServeHTTP(answer, request)
	if answer.Code != http.StatusCreated {
		return fmt.Errorf("%s %s: %d %s", method, path, answer.Code, answer.Body)
	}
	return nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
