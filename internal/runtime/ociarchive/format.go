package ociarchive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"runtime"
)

// The media types of an image layout.
const (
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
	typeIndex    = "application/vnd.oci.image.index.v1+json"
)

// The annotations with the name of an image: containerd reads the whole name from its own
// annotation, other importers read the tag from that of OCI.
const (
	annotationName = "io.containerd.image.name"
	annotationTag  = "org.opencontainers.image.ref.name"
)

// platform is part of an image's config and of its descriptor in an index.
type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

func hostPlatform() platform { return platform{Architecture: runtime.GOARCH, OS: "linux"} }

type imageConfig struct {
	Created string `json:"created"`
	platform
	Config runConfig `json:"config"`
	RootFS rootFS    `json:"rootfs"`
}

type runConfig struct {
	User         string              `json:",omitempty"`
	ExposedPorts map[string]struct{} `json:",omitempty"`
	Env          []string            `json:",omitempty"`
	Entrypoint   []string            `json:",omitempty"`
	Cmd          []string            `json:",omitempty"`
	StopSignal   string              `json:",omitempty"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// dockerManifest is one image in the manifest.json of a docker archive.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func configOf(img Image, layer []byte) ([]byte, error) {
	ports := map[string]struct{}{}
	for _, p := range img.ExposedPorts {
		ports[p] = struct{}{}
	}
	return json.Marshal(imageConfig{
		Created:  "1970-01-01T00:00:00Z",
		platform: hostPlatform(),
		Config: runConfig{
			User:         img.User,
			ExposedPorts: ports,
			Env:          img.Env,
			Entrypoint:   img.Entrypoint,
			Cmd:          img.Cmd,
			StopSignal:   img.StopSignal,
		},
		RootFS: rootFS{Type: "layers", DiffIDs: []string{digest(layer)}},
	})
}

// ociEntries returns the files of an OCI image layout: blobs by digest, and an index.
func ociEntries(tag string, layer, config []byte) ([]entry, error) {
	manifestBlob, err := json.Marshal(manifest{
		SchemaVersion: 2,
		MediaType:     typeManifest,
		Config:        describe(typeConfig, config),
		Layers:        []descriptor{describe(typeLayer, layer)},
	})
	if err != nil {
		return nil, err
	}

	image := describe(typeManifest, manifestBlob)
	host := hostPlatform()
	image.Platform = &host
	_, short := splitTag(tag)
	image.Annotations = map[string]string{annotationName: tag, annotationTag: short}
	indexFile, err := json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{image}})
	if err != nil {
		return nil, err
	}

	return []entry{
		regular("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)),
		regular("index.json", indexFile),
		regular("blobs/sha256/"+hexDigest(manifestBlob), manifestBlob),
		regular("blobs/sha256/"+hexDigest(config), config),
		regular("blobs/sha256/"+hexDigest(layer), layer),
	}, nil
}

// dockerEntries returns the files of an archive as `docker save` writes it.
func dockerEntries(tag string, layer, config []byte) ([]entry, error) {
	configName := hexDigest(config) + ".json"
	layerName := hexDigest(layer) + "/layer.tar"
	manifestFile, err := json.Marshal([]dockerManifest{{
		Config:   configName,
		RepoTags: []string{tag},
		Layers:   []string{layerName},
	}})
	if err != nil {
		return nil, err
	}
	return []entry{
		regular("manifest.json", manifestFile),
		regular(configName, config),
		regular(layerName, layer),
	}, nil
}

func regular(name string, data []byte) entry {
	return entry{name: name, mode: 0o644, data: data}
}

func describe(mediaType string, blob []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: digest(blob), Size: len(blob)}
}

func digest(blob []byte) string { return "sha256:" + hexDigest(blob) }

func hexDigest(blob []byte) string {
	sum := sha256.Sum256(blob)
	return hex.EncodeToString(sum[:])
}
