package hook

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/pods/handler"
)

// userAgent is the User-Agent of the kubelet, which servers know.
const userAgent = "kube-lifecycle/1.36"

// httpGet succeeds with any response, like that of the kubelet: a hook notifies the container, and its
// response does not matter. A status that is a failure, or a redirect to another host, is logged.
func (r *Runner) httpGet(ctx context.Context, t handler.Target, g *v1.HTTPGetAction) error {
	req, err := handler.NewRequest(ctx, t, g, userAgent)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: r.transport, CheckRedirect: handler.MayFollow}
	resp, err := client.Do(req)
	if req.URL.Scheme == "https" && errors.Is(err, http.ErrSchemeMismatch) {
		r.log.Info("the server of an HTTPS hook speaks plain HTTP; asking once more without TLS",
			"pod", pod.Ref(t.Pod), "container", t.Container.Name, "url", handler.RedactedURL(req.URL))
		req = handler.WithoutTLS(ctx, req)
		resp, err = client.Do(req)
		if err == nil && r.fallback != nil {
			r.fallback(t.Pod, req.URL.Host)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", handler.RedactedURL(req.URL), handler.WithoutURL(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		r.log.Info("a hook was answered, but not with success", "pod", pod.Ref(t.Pod), "container", t.Container.Name,
			"url", handler.RedactedURL(req.URL), "status", resp.StatusCode)
	}
	return nil
}
