package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	content "github.com/containerd/containerd/api/services/content/v1"
)

// Progress is how much of an image is here, in bytes as they come over the wire.
type Progress struct{ Done, Total int64 }

const (
	// sourceLabel is what containerd puts on what it fetched, with the repository.
	sourceLabel = "containerd.io/distribution.source."
	// maxManifest is more than a manifest needs; layers of that size do no harm.
	maxManifest = 256 << 10
	// maxLooks bounds how much is read to find a manifest.
	maxLooks = 50
)

// Progress tells how far the pull of a repository's images has come. The total is 0
// if nothing is known: before the manifest is here, and when no pull runs.
//
// CRI has no words for it. containerd knows what it is fetching by digest only, so
// the manifest says which of that belongs together.
func (r *Runtime) Progress(ctx context.Context, repository string) (Progress, error) {
	c, err := newClient(r.paths.socket, r.log)
	if err != nil {
		return Progress{}, err
	}
	defer c.close()
	store := content.NewContentClient(c.conn)
	ctx = c.inNamespace(ctx)
	active, err := store.ListStatuses(ctx, &content.ListStatusesRequest{})
	if err != nil {
		return Progress{}, fmt.Errorf("ask for progress: %w", plain(err))
	}
	coming := map[string]int64{} // by digest
	for _, s := range active.GetStatuses() {
		if digest, ok := strings.CutPrefix(s.GetRef(), "layer-"); ok {
			coming[digest] = s.GetOffset()
		}
	}
	if len(coming) == 0 {
		return Progress{}, nil
	}
	here, manifests, err := fetched(ctx, store, repository)
	if err != nil {
		return Progress{}, err
	}
	return sum(manifests, coming, here), nil
}

// layer is one of a manifest.
type layer struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// fetched returns what came from a repository, by digest, and the manifests in it.
func fetched(ctx context.Context, store content.ContentClient, repository string) (here map[string]bool, manifests [][]layer, err error) {
	host, path, _ := strings.Cut(repository, "/")
	host, _, _ = strings.Cut(host, ":") // containerd leaves out the port
	list, err := store.List(ctx, &content.ListContentRequest{Filters: []string{fmt.Sprintf("labels.%q==%q", sourceLabel+host, path)}})
	if err != nil {
		return nil, nil, fmt.Errorf("ask for progress: %w", plain(err))
	}
	here = map[string]bool{}
	for {
		page, err := list.Recv()
		if errors.Is(err, io.EOF) {
			return here, manifests, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("ask for progress: %w", plain(err))
		}
		for _, info := range page.GetInfo() {
			here[info.GetDigest()] = true
			if info.GetSize() > maxManifest || len(manifests) >= maxLooks {
				continue
			}
			if layers := readLayers(ctx, store, info.GetDigest()); len(layers) > 0 {
				manifests = append(manifests, layers)
			}
		}
	}
}

// readLayers returns the layers of a manifest, or nothing if it is none.
func readLayers(ctx context.Context, store content.ContentClient, digest string) []layer {
	stream, err := store.Read(ctx, &content.ReadContentRequest{Digest: digest})
	if err != nil {
		return nil
	}
	var text []byte
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil
		}
		text = append(text, part.GetData()...)
	}
	var manifest struct {
		Layers []layer `json:"layers"`
	}
	if json.Unmarshal(text, &manifest) != nil {
		return nil
	}
	return manifest.Layers
}

// sum adds up the images of which something is coming. A registry may lie about the
// sizes: more than all is never told.
func sum(manifests [][]layer, coming map[string]int64, here map[string]bool) Progress {
	var p Progress
	counted := map[string]bool{}
	for _, layers := range manifests {
		pulls := false
		for _, l := range layers {
			_, is := coming[l.Digest]
			pulls = pulls || is
		}
		for _, l := range layers {
			if !pulls || counted[l.Digest] || l.Size < 0 {
				continue
			}
			counted[l.Digest] = true
			p.Total += l.Size
			if done, is := coming[l.Digest]; is {
				p.Done += min(done, l.Size)
			} else if here[l.Digest] {
				p.Done += l.Size
			}
		}
	}
	return p
}
