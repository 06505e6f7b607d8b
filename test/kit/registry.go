package kit

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// Password is that of everybody whom a registry knows.
const Password = "hunter2"

// LoggedIn tells whether a request is one of user. It answers those that are not.
func LoggedIn(w http.ResponseWriter, r *http.Request, user string) bool {
	if name, password, _ := r.BasicAuth(); name == user && password == Password {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
	w.WriteHeader(http.StatusUnauthorized)
	return false
}

// Registry hands out images over HTTP, and keeps them in memory.
type Registry struct {
	t *testing.T
	http.Handler
}

// NewRegistry returns an empty one. It always sends the whole of a blob: the library
// refuses a range without an end, with which a pull that was broken off goes on.
func NewRegistry(t *testing.T) *Registry {
	backend := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, 0)))
	return &Registry{t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Range")
		backend.ServeHTTP(w, r)
	})}
}

// Push makes an image whose containers run a program, under a name such as team/app:1.
// Its layer also has some bytes that can't be packed.
func (r *Registry) Push(name string, program []byte, ballast int) {
	r.t.Helper()
	noise := make([]byte, ballast)
	_, _ = rand.Read(noise)
	var layer, plain bytes.Buffer
	files := tar.NewWriter(&plain)
	for path, data := range map[string][]byte{"workload": program, "noise": noise} {
		if err := files.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(data))}); err != nil {
			r.t.Fatal(err)
		}
		_, _ = files.Write(data)
	}
	_ = files.Close()
	packed := gzip.NewWriter(&layer)
	_, _ = packed.Write(plain.Bytes())
	_ = packed.Close()

	repository, tag, _ := strings.Cut(name, ":")
	config := r.blob(repository, r.encode(map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/workload"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(plain.Bytes())}},
	}), "application/vnd.oci.image.config.v1+json")
	manifest := r.encode(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
		"layers": []any{r.blob(repository, layer.Bytes(), "application/vnd.oci.image.layer.v1.tar+gzip")},
	})
	r.put("/v2/"+repository+"/manifests/"+tag, http.MethodPut, "application/vnd.oci.image.manifest.v1+json", manifest)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (r *Registry) encode(value any) []byte {
	r.t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		r.t.Fatal(err)
	}
	return text
}

// blob puts content into the registry, and returns its descriptor.
func (r *Registry) blob(repository string, data []byte, kind string) map[string]any {
	r.t.Helper()
	r.put("/v2/"+repository+"/blobs/uploads/?digest="+digest(data), http.MethodPost, "application/octet-stream", data)
	return map[string]any{"mediaType": kind, "digest": digest(data), "size": len(data)}
}

func (r *Registry) put(path, method, kind string, data []byte) {
	r.t.Helper()
	request := httptest.NewRequest(method, path, bytes.NewReader(data))
	request.Header.Set("Content-Type", kind)
	answer := httptest.NewRecorder()
	r.ServeHTTP(answer, request)
	if answer.Code != http.StatusCreated {
		r.t.Fatalf("push %s: %d %s", path, answer.Code, answer.Body)
	}
}
