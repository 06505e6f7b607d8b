package handler

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/printable"
)

const (
	// maxRedirects is how many redirects are followed.
	maxRedirects = 10
	// maxURL is how many bytes of a URL are shown.
	maxURL = 256
)

// NewTransport returns a transport without keep-alive: each request has a connection of its own.
func NewTransport() *http.Transport {
	return &http.Transport{
		// A proxy of the machine can't reach the pods of the machine.
		Proxy:              nil,
		DisableKeepAlives:  true,
		DisableCompression: true, // the text of a response is for users
		// The request goes to the address of a pod, and its certificate names a service, from any
		// issuer. The kubelet does not verify it either.
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// NewRequest returns the HTTP request of g to the target. agent is the User-Agent unless g has such a
// header.
func NewRequest(ctx context.Context, t Target, g *v1.HTTPGetAction, agent string) (*http.Request, error) {
	scheme := strings.ToLower(string(g.Scheme))
	switch scheme {
	case "":
		scheme = "http"
	case "http", "https":
	default:
		return nil, fmt.Errorf("scheme %q is neither HTTP nor HTTPS", g.Scheme)
	}
	at, err := Address(t, g.Host, g.Port)
	if err != nil {
		return nil, err
	}
	path, _, _ := strings.Cut(g.Path, "#")
	u, err := url.ParseRequestURI("/" + strings.TrimPrefix(path, "/"))
	if err != nil {
		path, _, _ = strings.Cut(path, "?")
		return nil, fmt.Errorf("path %q is not one of a URL: %w", path, WithoutURL(err))
	}
	u.Scheme, u.Host = scheme, at
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", RedactedURL(u), WithoutURL(err))
	}
	setHeaders(req, g.HTTPHeaders, agent)
	return req, nil
}

func setHeaders(req *http.Request, headers []v1.HTTPHeader, agent string) {
	for _, h := range headers {
		if http.CanonicalHeaderKey(h.Name) == "Host" {
			req.Host = h.Value // net/http ignores a Host header
			continue
		}
		req.Header.Add(h.Name, h.Value)
	}
	if _, set := req.Header["User-Agent"]; !set {
		req.Header.Set("User-Agent", agent)
	}
	if _, set := req.Header["Accept"]; !set {
		req.Header.Set("Accept", "*/*")
	}
}

// MayFollow is the CheckRedirect of hooks and probes: a redirect to another host is not followed, but
// returned as the response.
func MayFollow(next *http.Request, before []*http.Request) error {
	first := before[0]
	if !strings.EqualFold(next.URL.Hostname(), first.URL.Hostname()) {
		return http.ErrUseLastResponse
	}
	if len(before) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if first.URL.Scheme == "https" && next.URL.Scheme != "https" {
		dropSecrets(next)
	}
	return nil
}

// WithoutTLS returns the same request over plain HTTP, without its secrets.
func WithoutTLS(ctx context.Context, req *http.Request) *http.Request {
	bare := req.Clone(ctx)
	bare.URL.Scheme = "http"
	dropSecrets(bare)
	return bare
}

// dropSecrets removes headers that must be sent over TLS only.
func dropSecrets(req *http.Request) {
	req.Header.Del("Authorization")
	req.Header.Del("Cookie")
}

// RedactedURL returns a URL for messages: without its query, which may have passwords.
func RedactedURL(u *url.URL) string {
	return printable.Head((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), maxURL)
}

// WithoutURL removes the URL that net/http puts before its errors.
func WithoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
