package nodeapi

import (
	"net/http"
	"strings"
	"testing"
)

func TestPagesForPeopleAndPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Flags = map[string]string{"v": "2"} })
	client := w.client(theUser)
	for _, test := range []struct {
		path, accept string
		code         int
		says         string
	}{
		{"/flagz", "", http.StatusOK, "kubelet flagz"},
		{"/flagz", "*/*", http.StatusOK, "v=2\n"},
		{"/flagz", "text/plain", http.StatusOK, "v=2\n"},
		{"/flagz", "application/json;g=config.k8s.io;v=v1beta1;as=Flagz", http.StatusOK, `"kind":"Flagz","apiVersion":"config.k8s.io/v1beta1"`},
		{"/flagz", "application/json;g=config.k8s.io;v=v1beta1;as=Flagz", http.StatusOK, `"flags":{"v":"2"}`},
		{"/flagz", "application/yaml;g=config.k8s.io;v=v1alpha1;as=Flagz", http.StatusOK, "apiVersion: config.k8s.io/v1alpha1\n"},
		{"/flagz", "image/png, text/plain", http.StatusOK, "v=2\n"},
		{"/flagz", "application/json", http.StatusNotAcceptable, "as=Flagz"},
		{"/flagz", "application/json;g=config.k8s.io;v=v9;as=Flagz", http.StatusNotAcceptable, "as=Flagz"},
		{"/flagz", "application/json;g=config.k8s.io;v=v1beta1;as=Statusz", http.StatusNotAcceptable, "as=Flagz"},
		{"/statusz", "", http.StatusOK, "Paths: "},
		{"/statusz", "application/json;v=v1beta1;g=config.k8s.io;as=Statusz", http.StatusOK, `"binaryVersion":"`},
		{"/statusz", "application/json;v=v1beta1;g=config.k8s.io;as=Statusz", http.StatusOK, `"/healthz"`},
	} {
		code, body := ask(t, client, http.MethodGet, w.url+test.path, "Accept", test.accept)
		if code != test.code || !strings.Contains(body, test.says) {
			t.Errorf("%s as %q: got %d %q", test.path, test.accept, code, body)
		}
	}
}
