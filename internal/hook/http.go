package hook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pod"
)

const (
	// userAgent is what servers know from the kubelet.
	userAgent = "kube-lifecycle/1.36"
	// maxRedirects is how many are followed.
	maxRedirects = 10
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

// httpGet succeeds with any answer, as users of the kubelet know it: the hook is
// about telling the container something, not about what it answers. An answer
// that looks like a failure, or a redirect to another host, is logged.
func (r *Runner) httpGet(ctx context.Context, t Target, g *v1.HTTPGetAction) error {
	req, err := NewRequest(ctx, t, g, userAgent)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: r.transport, CheckRedirect: MayFollow}
	resp, err := client.Do(req)
	if req.URL.Scheme == "https" && errors.Is(err, http.ErrSchemeMismatch) {
		r.log.Info("the server of an HTTPS hook speaks plain HTTP; asking once more without TLS",
			"pod", pod.Ref(t.Pod), "container", t.Container.Name, "url", ShownURL(req.URL))
		req = withoutTLS(ctx, req)
		resp, err = client.Do(req)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", ShownURL(req.URL), withoutURL(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		r.log.Info("a hook was answered, but not with success", "pod", pod.Ref(t.Pod), "container", t.Container.Name,
			"url", ShownURL(req.URL), "status", resp.StatusCode)
	}
	return nil
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
		return nil, fmt.Errorf("path %q is not one of a URL: %w", path, withoutURL(err))
	}
	u.Scheme, u.Host = scheme, at
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ShownURL(u), withoutURL(err))
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

// withoutTLS is the same request over plain HTTP.
func withoutTLS(ctx context.Context, req *http.Request) *http.Request {
	plain := req.Clone(ctx)
	plain.URL.Scheme = "http"
	dropSecrets(plain)
	return plain
}

// dropSecrets is for what was meant to be sent over TLS, and no longer is.
func dropSecrets(req *http.Request) {
	req.Header.Del("Authorization")
	req.Header.Del("Cookie")
}

// ShownURL is u as users may read it: queries carry passwords at times.
func ShownURL(u *url.URL) string {
	return head((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), maxWhat)
}

// withoutURL removes the URL that net/http puts before its errors.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
