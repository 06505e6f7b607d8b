package status

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth/internal/lib/pod"
)

// requestTimeout is how long one request may take. A server that hangs holds up
// one of the writer's goroutines for no longer.
const requestTimeout = 10 * time.Second

// patch sends the difference between the known and the desired status. It returns the fields that
// it sent, and the pod of the answer: nil if there was no difference.
func (w *Writer) patch(ctx context.Context, uid pod.UID, e *podEntry) (map[string]any, *v1.Pod, error) {
	fields, err := difference(e.held, *e.want)
	if err != nil || len(fields) == 0 {
		return nil, nil, err
	}
	raw, err := encodePatch(uid, fields)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	updated, err := w.Client.Pods(e.namespace).Patch(ctx, e.name, types.StrategicMergePatchType, raw, metav1.PatchOptions{}, "status")
	if err != nil {
		return nil, nil, fmt.Errorf("patch the status of pod %s/%s: %w", e.namespace, e.name, err)
	}
	return fields, updated, nil
}

func (w *Writer) delete(ctx context.Context, e *podEntry, uid pod.UID) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	now := int64(0)
	err := w.Client.Pods(e.namespace).Delete(ctx, e.name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(uid)),
	})
	if err != nil {
		return fmt.Errorf("delete pod %s/%s: %w", e.namespace, e.name, err)
	}
	return nil
}
