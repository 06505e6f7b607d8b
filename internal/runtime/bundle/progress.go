package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	content "github.com/containerd/containerd/api/services/content/v1"
)

// Progress is how many bytes of an image were received, compressed as in the registry.
type Progress struct{ Done, Total int64 }

const (
	// sourceLabel begins the label with the repository that containerd puts on fetched content.
	sourceLabel = "containerd.io/distribution.source."
	// maxManifest is more than a manifest needs; layers of that size do no harm.
	maxManifest = 256 << 10
	// maxReads is how many blobs are read per call of Progress to find manifests. The others
	// have to wait for the next call.
	maxReads = 50
	// maxCached bounds the number of blobs in the cache.
	maxCached = 10_000
)

// contentCache caches the layers of manifests in containerd's content store. Content never
// changes: each blob is read once. It also holds the connection for that.
type contentCache struct {
	mu       sync.Mutex
	client   *client            // nil until the first call
	closed   bool               // calls fail from now on
	layersOf map[string][]layer // by digest; empty for a blob that is no manifest
}

// connect returns the connection that all calls share.
func (l *contentCache) connect(socket string, log *slog.Logger) (c *client, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errors.New("the runtime was let go of")
	}
	if l.client == nil {
		l.client, err = newClient(socket, log)
	}
	return l.client, err
}

// close ends the connection for good.
func (l *contentCache) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.client != nil {
		l.client.close()
	}
}

// Progress returns the progress of the running pulls from a repository. The total is 0 if it
// is not known: before the manifest is here, and when no pull runs.
//
// CRI has no such call. containerd's content store lists the downloads by digest only, so the
// manifest is needed to know which of them belong to an image.
func (r *Runtime) Progress(ctx context.Context, repository string) (Progress, error) {
	c, err := r.contentCache.connect(r.paths.socket, r.log)
	if err != nil {
		return Progress{}, err
	}
	store := content.NewContentClient(c.conn)
	ctx = c.inNamespace(ctx)
	active, err := store.ListStatuses(ctx, &content.ListStatusesRequest{})
	if err != nil {
		return Progress{}, fmt.Errorf("ask for progress: %w", unwrapStatus(err))
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
	here, err := fetched(ctx, store, repository)
	if err != nil {
		return Progress{}, err
	}
	return sum(r.contentCache.manifests(ctx, store, here), coming, here), nil
}

// layer is a layer in a manifest.
type layer struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// fetched returns the sizes of the blobs that were fetched from a repository, by digest.
func fetched(ctx context.Context, store content.ContentClient, repository string) (map[string]int64, error) {
	host, path, _ := strings.Cut(repository, "/")
	host, _, _ = strings.Cut(host, ":") // containerd leaves out the port
	list, err := store.List(ctx, &content.ListContentRequest{Filters: []string{fmt.Sprintf("labels.%q==%q", sourceLabel+host, path)}})
	if err != nil {
		return nil, fmt.Errorf("ask for progress: %w", unwrapStatus(err))
	}
	here := map[string]int64{}
	for {
		page, err := list.Recv()
		if errors.Is(err, io.EOF) {
			return here, nil
		}
		if err != nil {
			return nil, fmt.Errorf("ask for progress: %w", unwrapStatus(err))
		}
		for _, info := range page.GetInfo() {
			here[info.GetDigest()] = info.GetSize()
		}
	}
}

// manifests returns the layers of each manifest among the blobs in here. It reads up to maxReads
// blobs that are not in the cache yet.
func (l *contentCache) manifests(ctx context.Context, store content.ContentClient, here map[string]int64) [][]layer {
	var out [][]layer
	read := 0
	for digest, size := range here {
		layers, known := l.recall(digest)
		if !known && size <= maxManifest && read < maxReads {
			read++
			var err error
			if layers, err = readLayers(ctx, store, digest); err == nil {
				l.remember(digest, layers)
			}
		}
		if len(layers) > 0 {
			out = append(out, layers)
		}
	}
	return out
}

func (l *contentCache) recall(digest string) ([]layer, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	layers, known := l.layersOf[digest]
	return layers, known
}

// remember adds a blob to the cache. A full cache is emptied first.
func (l *contentCache) remember(digest string, layers []layer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.layersOf == nil || len(l.layersOf) >= maxCached {
		l.layersOf = map[string][]layer{}
	}
	l.layersOf[digest] = layers
}

// readLayers returns the layers of a manifest, or none if the blob is no manifest.
func readLayers(ctx context.Context, store content.ContentClient, digest string) ([]layer, error) {
	stream, err := store.Read(ctx, &content.ReadContentRequest{Digest: digest})
	if err != nil {
		return nil, err
	}
	var text []byte
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		text = append(text, part.GetData()...)
	}
	var manifest struct {
		Layers []layer `json:"layers"`
	}
	if json.Unmarshal(text, &manifest) != nil {
		return nil, nil //nolint:nilerr // most content is something else
	}
	return manifest.Layers, nil
}

// sum adds up the images of which a layer is being fetched. A registry may lie about the
// sizes: Done is never more than Total.
func sum(manifests [][]layer, coming, here map[string]int64) Progress {
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
			} else if _, is := here[l.Digest]; is {
				p.Done += l.Size
			}
		}
	}
	return p
}
