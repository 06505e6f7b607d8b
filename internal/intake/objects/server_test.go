package objects

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// server is an API server in memory, behind a real client. There is no network, so it
// goes with synctest.
type server struct {
	t *testing.T

	mu       sync.Mutex
	version  int
	objects  map[string]object // by resource/namespace/name
	watches  map[*stream]bool
	requests []string
	refuse   func(request string) error // nil: everything is answered
	token    func(*authenticationv1.TokenRequest)
}

// stream is a watch that is open.
type stream struct {
	resource, namespace, name string // an empty one stands for all
	out                       chan []byte
	end                       context.CancelFunc
}

func (s *stream) matches(resource string, o object) bool {
	return s.resource == resource && (s.namespace == "" || s.namespace == o.GetNamespace()) && (s.name == "" || s.name == o.GetName())
}

func newServer(t *testing.T) *server {
	return &server{t: t, version: 100, objects: map[string]object{}, watches: map[*stream]bool{}}
}

func (s *server) client() *kubernetes.Clientset {
	s.t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{
		Host: "http://api", Transport: s, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	})
	must(s.t, err)
	return c
}

// put stores an object, and sends it to watchers.
func (s *server) put(o object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
	resource, key := keyOf(o)
	_, known := s.objects[key]
	s.objects[key] = o
	if known {
		s.notifyWatches(resource, "MODIFIED", o)
	} else {
		s.notifyWatches(resource, "ADDED", o)
	}
}

func (s *server) remove(o object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	resource, key := keyOf(o)
	delete(s.objects, key)
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.notifyWatches(resource, "DELETED", o)
}

func (s *server) notifyWatches(resource, event string, o object) {
	for w := range s.watches {
		if w.matches(resource, o) {
			w.out <- eventOf(event, o)
		}
	}
}

// fail makes requests fail; nil: they are answered again. Watches that are open stay
// open.
func (s *server) fail(err error) {
	s.refuseSome(func(string) error { return err })
}

func (s *server) refuseSome(refuse func(string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
}

// cut ends all watches.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.end()
		delete(s.watches, w)
	}
}

// asked returns the requests for a resource since the last call.
func (s *server) asked(resource string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out, others []string
	for _, r := range s.requests {
		if strings.Contains(r, resource) {
			out = append(out, r)
		} else {
			others = append(others, r)
		}
	}
	s.requests = others
	return out
}

// watching returns the objects that are watched by name.
func (s *server) watching() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for w := range s.watches {
		if w.name != "" {
			out = append(out, w.resource+" "+w.namespace+"/"+w.name)
		}
	}
	slices.Sort(out)
	return out
}

func keyOf(o object) (resource, key string) {
	switch o.(type) {
	case *v1.ConfigMap:
		resource = "configmaps"
	case *v1.Secret:
		resource = "secrets"
	case *v1.Service:
		resource = "services"
	case *nodev1.RuntimeClass:
		resource = "runtimeclasses"
	case *v1.PersistentVolume:
		resource = "persistentvolumes"
	case *v1.PersistentVolumeClaim:
		resource = "persistentvolumeclaims"
	case *v1.ServiceAccount:
		resource = "serviceaccounts"
	case *storagev1.CSIDriver:
		resource = "csidrivers"
	case *storagev1.VolumeAttachment:
		resource = "volumeattachments"
	case *certificatesv1beta1.ClusterTrustBundle:
		resource = "clustertrustbundles"
	default:
		panic(fmt.Sprintf("the server has no %T", o))
	}
	return resource, resource + "/" + o.GetNamespace() + "/" + o.GetName()
}

// RoundTrip is called by the client.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/")
	for _, group := range []string{"node.k8s.io/v1", "storage.k8s.io/v1", "certificates.k8s.io/v1beta1"} {
		path = strings.TrimPrefix(path, "/apis/"+group+"/")
	}
	parts := strings.Split(path, "/")
	namespace := ""
	if len(parts) > 2 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	resource, q := parts[0], r.URL.Query()
	name, named := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name=")
	if len(parts) > 1 {
		name = parts[1]
	}
	verb := "get"
	switch {
	case r.Method == http.MethodPost:
		verb = "post"
	case q.Get("watch") != "" && q.Get("sendInitialEvents") == "true":
		verb = "stream"
	case q.Get("watch") != "":
		verb = "watch"
	case len(parts) == 1:
		verb = "list"
	}
	if (resource == "secrets" || resource == "configmaps") && verb != "get" && !named {
		s.t.Errorf("a node may not %s all %s", verb, resource)
	}
	request := verb + " " + resource + " " + namespace + "/" + name

	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
	if s.refuse != nil {
		if err := s.refuse(request); err != nil {
			return refusal(err)
		}
	}
	switch verb {
	case "post":
		return s.makeToken(r)
	case "get":
		o := s.objects[resource+"/"+namespace+"/"+name]
		if o == nil {
			return refusal(apierrors.NewNotFound(v1.Resource(resource), name))
		}
		return answer(http.StatusOK, o), nil
	case "list":
		items := []object{}
		for _, o := range s.objects {
			if (&stream{resource, namespace, name, nil, nil}).matches(resourceOf(o), o) {
				items = append(items, o)
			}
		}
		return answer(http.StatusOK, map[string]any{
			"kind": kinds[resource] + "List", "apiVersion": groups[resource], "metadata": metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}, "items": items,
		}), nil
	default:
		return s.stream(r.Context(), &stream{resource: resource, namespace: namespace, name: name}, verb == "stream"), nil
	}
}

func resourceOf(o object) string {
	resource, _ := keyOf(o)
	return resource
}

// stream opens a watch. If initial, it begins with all that there is.
func (s *server) stream(ctx context.Context, w *stream, initial bool) *http.Response {
	ctx, w.end = context.WithCancel(ctx)
	w.out = make(chan []byte, 1000)
	s.watches[w] = true
	if initial {
		for _, o := range s.objects {
			if w.matches(resourceOf(o), o) {
				w.out <- eventOf("ADDED", o)
			}
		}
		w.out <- eventOf("BOOKMARK", map[string]any{"kind": kinds[w.resource], "apiVersion": groups[w.resource], "metadata": metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(s.version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
	}
	reader, writer := io.Pipe()
	go func() {
		<-ctx.Done()
		_ = writer.Close()
		s.mu.Lock()
		delete(s.watches, w)
		s.mu.Unlock()
	}()
	go func() {
		for {
			select {
			case raw := <-w.out:
				_, _ = writer.Write(raw)
			case <-ctx.Done():
				return
			}
		}
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: jsonHeader(), Body: reader}
}

func (s *server) makeToken(r *http.Request) (*http.Response, error) {
	var request authenticationv1.TokenRequest
	must(s.t, json.NewDecoder(r.Body).Decode(&request))
	s.token(&request)
	return answer(http.StatusCreated, &request), nil
}

// kinds and groups are the kinds and API groups of resources.
var (
	kinds = map[string]string{
		"configmaps": "ConfigMap", "secrets": "Secret", "services": "Service", "runtimeclasses": "RuntimeClass",
		"clustertrustbundles": "ClusterTrustBundle",
	}
	groups = map[string]string{"configmaps": "v1", "secrets": "v1", "services": "v1", "runtimeclasses": "node.k8s.io/v1", "clustertrustbundles": "certificates.k8s.io/v1beta1"}
)

func eventOf(event string, o any) []byte {
	if o, ok := o.(object); ok {
		resource := resourceOf(o)
		o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(groups[resource], kinds[resource]))
	}
	return append(encode(map[string]any{"type": event, "object": o}), '\n')
}

func encode(what any) []byte {
	raw, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	return raw
}

func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }

func answer(code int, what any) *http.Response {
	return &http.Response{StatusCode: code, Header: jsonHeader(), Body: io.NopCloser(bytes.NewReader(encode(what)))}
}

// refusal is how a failure gets to the client: as an answer if it is one of the server.
func refusal(err error) (*http.Response, error) {
	if status, ok := err.(apierrors.APIStatus); ok {
		said := status.Status()
		said.Kind, said.APIVersion = "Status", "v1"
		return answer(int(said.Code), said), nil
	}
	return nil, err
}

var errDown = fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
