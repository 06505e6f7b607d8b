package mirror

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// requestTimeout bounds all requests for one mirror pod.
const requestTimeout = 10 * time.Second

// perform makes the requests that lead to a desired state.
func (m *Manager) perform(ctx context.Context, w desired) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if w.static == nil {
		return m.delete(ctx, w.mirror)
	}
	node := m.Node()
	if node == nil {
		return nil // Ensure is called again when the node is registered
	}
	switch Judge(w.static, w.mirror, node) {
	case Renew:
		if err := m.delete(ctx, w.mirror); err != nil {
			return err
		}
		return m.create(ctx, Of(w.static, node))
	case Create:
		return m.create(ctx, Of(w.static, node))
	default:
		return nil
	}
}

func (m *Manager) create(ctx context.Context, mirror *v1.Pod) error {
	_, err := m.Client.Pods(mirror.Namespace).Create(ctx, mirror, metav1.CreateOptions{})
	switch {
	case err == nil:
		m.Log.Info("mirror pod created", "pod", pod.Ref(mirror))
		return nil
	case apierrors.IsAlreadyExists(err):
		// The watch has not delivered this mirror pod yet, or it is still being deleted. In
		// either case an event follows, and then it is judged again.
		return nil
	default:
		return fmt.Errorf("create mirror pod %s: %w", pod.Ref(mirror), err)
	}
}

// delete deletes the mirror pod with this UID, and no later pod of the same name.
func (m *Manager) delete(ctx context.Context, mirror *v1.Pod) error {
	now := int64(0)
	err := m.Client.Pods(mirror.Namespace).Delete(ctx, mirror.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(mirror.UID)),
	})
	switch {
	case err == nil:
		m.Log.Info("mirror pod deleted", "pod", pod.Ref(mirror), "uid", mirror.UID)
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // the mirror pod is gone
	default:
		return fmt.Errorf("delete mirror pod %s: %w", pod.Ref(mirror), err)
	}
}

// isAway reports whether an error is about the API server, and not about this pod: there was no
// answer, or the answer says to try again later.
func isAway(err error) bool {
	if err == nil {
		return false
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return !ok || status.ErrStatus.Code >= http.StatusInternalServerError || status.ErrStatus.Code == http.StatusTooManyRequests
}
