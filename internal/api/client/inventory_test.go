package client

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestInventory(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.EscapedPath())
		if strings.Contains(r.URL.Path, "gone") {
			http.Error(w, "no such pod", http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, `{"metadata":{"name":"box"},"node":{"nodeName":"box"},"items":[{"id":"i","name":"v","kind":"k"}],"phases":[{"name":"queue"}]}`)
	})
	ctx := t.Context()
	n, err := c.Machine(ctx)
	if err != nil || n.Name != "box" {
		t.Errorf("got %+v (%v)", n, err)
	}
	images, err := c.Images(ctx)
	if err != nil || len(images.Items) != 1 || images.Items[0].ID != "i" {
		t.Errorf("got %+v (%v)", images, err)
	}
	volumes, err := c.Volumes(ctx)
	if err != nil || volumes.Items[0].Name != "v" {
		t.Errorf("got %+v (%v)", volumes, err)
	}
	summary, err := c.Summary(ctx)
	if err != nil || summary.Node.NodeName != "box" {
		t.Errorf("got %+v (%v)", summary, err)
	}
	probes, err := c.Probes(ctx, "x", "a/b")
	if err != nil || probes.Items[0].Kind != "k" {
		t.Errorf("got %+v (%v)", probes, err)
	}
	w, err := c.Waterfall(ctx, "x", "web")
	if err != nil || w.Phases[0].Name != "queue" {
		t.Errorf("got %+v (%v)", w, err)
	}
	want := "/v1/node /v1/images /v1/volumes /stats/summary /v1/namespaces/x/pods/a%2Fb/probes /v1/namespaces/x/pods/web/waterfall"
	if got := strings.Join(asked, " "); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
	_, err = c.Waterfall(ctx, "x", "gone")
	wantError(t, err, "no such pod")
}
