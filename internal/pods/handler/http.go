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
	// maxRedirects is how many are followed.
	maxRedirects = 10
	// maxURL is how many bytes of a URL are shown.
	maxURL = 256
)

// NewTransport makes one connection for every request.
func NewTransport() *http.Transport {
	return &http.Transport{
		// The machine's proxy does not know the pods of the machine.
		Proxy:              nil,
		DisableKeepAlives:  true,
		DisableCompression: true, // the text of an answer is to be shown, not saved
		// A pod's certificate names a service and comes from anywhere; the request
		// goes to its address. The kubelet doesn't check it either.
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// NewRequest is what g asks the target for. The user agent is the one that is
// named unless g has a header for it.
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
		return nil, fmt.Errorf("%s: %w", ShownURL(u), WithoutURL(err))
	}
	setHeaders(req, g.HTTPHeaders, agent)
	return req, nil
}

func setHeaders(req *http.Request, headers []v1.HTTPHeader, agent string) {
	for _, h := range headers {
		if http.CanonicalHeaderKey(h.Name) == "Host" {
			req.Host = h.Value // net/http does not look for it among the headers
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

// MayFollow keeps a request on the host that it was meant for. A redirect to
// another one is handed to the caller as the answer.
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

// WithoutTLS is the same request over plain HTTP, without what was to be kept secret.
func WithoutTLS(ctx context.Context, req *http.Request) *http.Request {
	bare := req.Clone(ctx)
	bare.URL.Scheme = "http"
	dropSecrets(bare)
	return bare
}

// dropSecrets is for what was meant to be sent over TLS, and no longer is.
func dropSecrets(req *http.Request) {
	req.Header.Del("Authorization")
	req.Header.Del("Cookie")
}

// ShownURL is u as users may read it: queries carry passwords at times.
func ShownURL(u *url.URL) string {
	return printable.Head((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), maxURL)
}

// WithoutURL removes the URL that net/http puts before its errors.
func WithoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
