package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reloadInterval is the time between two attempts of Reload to read the Node.
const reloadInterval = 500 * time.Millisecond

// Reload reads the Node from the API server, without waiting for the watch.
// It tries until ctx ends, and then returns the error of the last attempt.
func (r *Reporter) Reload(ctx context.Context) error {
	for {
		err := r.reloadOnce(ctx)
		if err == nil || !pause(ctx, reloadInterval, nil) {
			return err
		}
	}
}

func (r *Reporter) reloadOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	name, known := r.config.Settings.Name, r.uid()
	if known == "" {
		return errors.New("the node is not registered yet")
	}
	node, err := r.config.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		if apierrors.IsNotFound(err) {
			r.observeDeletion(known)
		}
		return fmt.Errorf("read node %s: %w", name, err)
	}
	r.observeNode(node)
	if r.uid() != node.UID {
		return fmt.Errorf("node %s was made anew, and is not ours yet", name)
	}
	return nil
}
