package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pods/handler"
)

// userAgent is the User-Agent of the kubelet, which servers know.
const userAgent = "kube-probe/1.36"

// httpGet succeeds with a status from 200 to 399.
func (m *Manager) httpGet(ctx context.Context, q checkRequest, g *v1.HTTPGetAction, timeout time.Duration) checkResult {
	req, err := handler.NewRequest(ctx, q.target, g, userAgent)
	if err != nil {
		return unknown(err.Error())
	}
	// The timeout of the client, unlike one of the context, says in its error what
	// was being waited for.
	client := &http.Client{Transport: m.transport, CheckRedirect: handler.MayFollow, Timeout: timeout}
	resp, err := client.Do(req)
	if err != nil {
		return connectionFailure(withRedactedURL(err), err)
	}
	defer resp.Body.Close()
	// The rest of the body is not read; the server may log that.
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRead))
	if err != nil {
		return connectionFailure(fmt.Sprintf("statuscode: %d, but the body can't be read: %v", resp.StatusCode, err), err)
	}
	switch _, redirect := resp.Header["Location"]; {
	case resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusBadRequest:
		return failure(fmt.Sprintf("HTTP probe failed with statuscode: %d", resp.StatusCode))
	case resp.StatusCode >= http.StatusMultipleChoices && redirect:
		return checkResult{outcome: Success, warning: true, output: "Probe terminated redirects, Response body: " + string(body)}
	default:
		return success(fmt.Sprintf("statuscode: %d", resp.StatusCode))
	}
}

// withRedactedURL returns the text of an error of net/http, without secrets in its URL.
func withRedactedURL(err error) string {
	e, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err.Error()
	}
	at := "?"
	if u, err := url.Parse(e.URL); err == nil {
		at = handler.RedactedURL(u)
	}
	return (&url.Error{Op: e.Op, URL: at, Err: e.Err}).Error()
}
