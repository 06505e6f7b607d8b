package localapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/api"
	"berth/internal/lib/pod"
)

// fakeInventory has nothing, or fails.
type fakeInventory struct{ err error }

func (f fakeInventory) Node(context.Context) (*v1.Node, error) {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, f.err
}
func (f fakeInventory) Images(context.Context) ([]api.Image, error)   { return nil, f.err }
func (f fakeInventory) Volumes(context.Context) ([]api.Volume, error) { return nil, f.err }
func (fakeInventory) Probes(p *v1.Pod) []api.ProbeResult {
	return []api.ProbeResult{{Container: p.Name}}
}

func (fakeInventory) Waterfall(uid pod.UID) (api.Waterfall, bool) {
	return api.Waterfall{Phases: []api.Phase{{Name: string(uid)}}}, uid == "x-web"
}

// ask returns the code and the body of an answer of a server with an inventory.
func ask(t *testing.T, i Inventory, w Waterfalls, path string) (int, string) {
	t.Helper()
	pods := &fakePods{pods: []*v1.Pod{newPod("x", "web", "app"), newPod("x", "db", "sql")}}
	s, err := New(Config{Pods: pods, Logs: fakeLogs{}, Log: discard(), Inventory: i, Waterfalls: w})
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	s.routes(nil).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return answer.Code, answer.Body.String()
}

func TestInventory(t *testing.T) {
	for _, c := range []struct {
		path, want string
	}{
		{"/v1/images", `{"items":[]}` + "\n"},
		{"/v1/volumes", `{"items":[]}` + "\n"},
		{"/v1/namespaces/x/pods/web/probes", `{"items":[{"container":"web-node-1","kind":"","at":"0001-01-01T00:00:00Z","outcome":"","inARow":0}]}` + "\n"},
	} {
		if code, body := ask(t, fakeInventory{}, nil, c.path); code != http.StatusOK || body != c.want {
			t.Errorf("%s: got %d %s", c.path, code, body)
		}
	}
	_, body := ask(t, fakeInventory{}, nil, "/v1/node")
	var n v1.Node
	if err := json.Unmarshal([]byte(body), &n); err != nil || n.Kind != "Node" || n.APIVersion != "v1" || n.Name != "node-1" {
		t.Errorf("got %s (%v)", body, err)
	}
	_, body = ask(t, nil, fakeInventory{}, "/v1/namespaces/x/pods/web/waterfall")
	var w api.Waterfall
	if err := json.Unmarshal([]byte(body), &w); err != nil || len(w.Phases) != 1 || w.Phases[0].Name != "x-web" {
		t.Errorf("got %s (%v)", body, err)
	}
}

func TestInventoryThatFails(t *testing.T) {
	broken := fakeInventory{err: errors.New("the runtime is away")}
	for _, path := range []string{"/v1/node", "/v1/images", "/v1/volumes"} {
		if code, body := ask(t, broken, nil, path); code != http.StatusInternalServerError || body != "the runtime is away\n" {
			t.Errorf("%s: got %d %q", path, code, body)
		}
		if code, _ := ask(t, nil, nil, path); code != http.StatusNotImplemented {
			t.Errorf("%s: got %d of a server that does not know", path, code)
		}
	}
	for path, want := range map[string]int{
		"/v1/namespaces/x/pods/nope/probes":    http.StatusNotFound,
		"/v1/namespaces/x/pods/nope/waterfall": http.StatusNotFound,
		"/v1/namespaces/x/pods/db/waterfall":   http.StatusNotFound, // it was up before
	} {
		if code, body := ask(t, fakeInventory{}, fakeInventory{}, path); code != want {
			t.Errorf("%s: got %d %q", path, code, body)
		}
		if code, _ := ask(t, nil, nil, path); code != http.StatusNotImplemented {
			t.Errorf("%s: got %d of a server that does not know", path, code)
		}
	}
}
