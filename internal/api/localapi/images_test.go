package localapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"berth/internal/api"
	"berth/internal/lib/progress"
)

// fakeImages has one image, large.
type fakeImages struct{ loaded int64 }

func (*fakeImages) Pull(_ context.Context, image string, report func(progress.Progress)) error {
	if image != "large" {
		return errors.New("no such image")
	}
	report(progress.Progress{Done: 1, Total: 2, Rate: 3})
	return nil
}

func (f *fakeImages) Load(_ context.Context, name string, archive io.Reader, received func()) ([]string, error) {
	if name == "refused" {
		return nil, errors.New("not here")
	}
	var err error
	f.loaded, err = io.Copy(io.Discard, archive)
	received()
	if name == "broken" {
		err = errors.New("no archive")
	}
	return []string{"localhost/" + name}, err
}

func (*fakeImages) Remove(_ context.Context, image string) error {
	if image != "large" {
		return errors.New("it is in use")
	}
	return nil
}

func (*fakeImages) Collect(_ context.Context, dryRun, all bool) (api.GCReport, error) {
	if all && !dryRun {
		return api.GCReport{}, errors.New("no disk")
	}
	return api.GCReport{DryRun: dryRun, Freed: 7}, nil
}

func TestImages(t *testing.T) {
	images := &fakeImages{}
	s := &Server{imageStore: images, streams: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	s.routeImages(mux)
	large := strings.Repeat("x", 3*maxBodyBytes)
	for _, c := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"POST", "/v1/images/pull?image=large", "", 200, `{"step":"COMES"}` + "\n" + `{"step":"COMES","done":1,"total":2,"rate":3}` + "\n" + `{"step":"DONE","images":["large"]}`},
		{"POST", "/v1/images/pull?image=other", "", 200, `{"step":"COMES"}` + "\n" + `{"step":"FAILED","error":"no such image"}`},
		{"POST", "/v1/images/pull", "", 400, "image is missing"},
		{"POST", "/v1/images/load?name=a", large, 200, `{"step":"COMES"}` + "\n" + `{"step":"DONE","images":["localhost/a"]}`},
		{"POST", "/v1/images/load?name=broken", "x", 200, `{"step":"COMES"}` + "\n" + `{"step":"FAILED","error":"no archive"}`},
		{"POST", "/v1/images/load?name=refused", "x", 409, "not here"},
		{"DELETE", "/v1/images?image=large", "", 200, "{}"},
		{"DELETE", "/v1/images?image=used", "", 409, "it is in use"},
		{"POST", "/v1/images/gc", "", 200, `"freed":7`},
		{"POST", "/v1/images/gc?dryRun=1&all=true", "", 200, `"dryRun":true`},
		{"POST", "/v1/images/gc?all=true", "", 200, `"error":"no disk"`},
		{"POST", "/v1/images/gc?dryRun=perhaps", "", 400, "true or false"},
	} {
		w := httptest.NewRecorder()
		bounded(mux).ServeHTTP(w, httptest.NewRequest(c.method, c.path, bytes.NewReader([]byte(c.body))))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, w.Code, w.Body, c.code, c.want)
		}
		if c.body == large && images.loaded != int64(len(large)) {
			t.Errorf("%d bytes came", images.loaded)
		}
	}
}

func TestImageRequestsWithoutAnImageManager(t *testing.T) {
	s := &Server{streams: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	s.routeImages(mux)
	for _, r := range []string{"POST /v1/images/pull?image=a", "POST /v1/images/load", "DELETE /v1/images?image=a", "POST /v1/images/gc"} {
		method, path, _ := strings.Cut(r, " ")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(method, path, http.NoBody))
		if w.Code != http.StatusNotImplemented {
			t.Errorf("%s: %d %s", r, w.Code, w.Body)
		}
	}
}
