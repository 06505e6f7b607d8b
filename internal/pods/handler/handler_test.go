package handler

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestShownLeavesSecretsOut(t *testing.T) {
	u, err := url.Parse("https://me:hush@web:8443/a%20b?token=hush#hush")
	if err != nil {
		t.Fatal(err)
	}
	if got := RedactedURL(u); got != "https://web:8443/a%20b" {
		t.Errorf("shown as %s", got)
	}
}

func TestWhereToConnectTo(t *testing.T) {
	pod := Target{Container: &v1.Container{Ports: []v1.ContainerPort{{Name: "web", ContainerPort: 80}}}, PodIP: "10.0.0.7"}
	young := Target{Container: pod.Container}
	for _, c := range []struct {
		target     Target
		host, port string
		want       string // or what is wrong
	}{
		{pod, "", "web", "10.0.0.7:80"},
		{pod, "", "8080", "10.0.0.7:8080"},
		{pod, "localhost", "web", "localhost:80"},
		{pod, "[::1]", "web", "[::1]:80"},
		{young, "::1", "web", "[::1]:80"},
		{young, "", "web", "no address yet"},
		{pod, "http://localhost/", "web", "leave out scheme"},
		{pod, "", "metrics", "metrics"},
	} {
		got, err := Address(c.target, c.host, intstr.Parse(c.port))
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%q, %q: got %q, want %q", c.host, c.port, got, c.want)
		}
	}
}

func TestARequestThatLeavesTLSHasNoSecrets(t *testing.T) {
	g := &v1.HTTPGetAction{Scheme: v1.URISchemeHTTPS, Path: "/x?y=z#gone", Port: intstr.FromInt32(8443), HTTPHeaders: []v1.HTTPHeader{
		{Name: "authorization", Value: "hush"}, {Name: "Cookie", Value: "hush"}, {Name: "host", Value: "web"},
	}}
	req, err := NewRequest(t.Context(), Target{Container: &v1.Container{}, PodIP: "10.0.0.7"}, g, "test")
	if err != nil {
		t.Fatal(err)
	}

	bare := WithoutTLS(t.Context(), req)

	if req.URL.String() != "https://10.0.0.7:8443/x?y=z" || req.Host != "web" || req.UserAgent() != "test" || req.Header.Get("Authorization") != "hush" {
		t.Errorf("got %+v", req)
	}
	if bare.URL.String() != "http://10.0.0.7:8443/x?y=z" || bare.Header.Get("Authorization") != "" || bare.Header.Get("Cookie") != "" {
		t.Errorf("got %+v", bare)
	}
	for where, follows := range map[string]bool{"https://10.0.0.7:9000/": true, "https://example.test/": false} {
		next, err := http.NewRequestWithContext(t.Context(), http.MethodGet, where, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if err := MayFollow(next, []*http.Request{req}); (err == nil) != follows {
			t.Errorf("%s: %v", where, err)
		}
	}
}
