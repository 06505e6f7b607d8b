package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// minWatchTimeout is how long a watch lasts at least. Jitter makes it up to twice as long, so that
	// many nodes do not begin new watches together.
	minWatchTimeout = 5 * time.Minute
	// minWatch is the duration below which a watch counts as failed: there is a pause before the
	// next.
	minWatch = time.Second
)

// errWatchRenewed ends the watch of a Node that was deleted.
var errWatchRenewed = errors.New("the node is another")

// keepWatch watches the Node for changes by other programs. Each watch begins with a list. The
// list has one object, so it costs less than to resume from a resource version that the API
// server may no longer have.
func (r *Reporter) keepWatch(ctx context.Context) {
	select {
	case <-r.known:
	case <-ctx.Done():
		return
	}
	outages := &outage{log: r.config.Log, what: "watch this node at the API server"}
	for ctx.Err() == nil {
		one, end := context.WithCancelCause(ctx)
		r.mu.Lock()
		r.endWatch = func() { end(errWatchRenewed) }
		r.mu.Unlock()
		err := r.watchOnce(one, func() { outages.over() })
		renewed := errors.Is(context.Cause(one), errWatchRenewed)
		end(nil)
		if err == nil || renewed || ctx.Err() != nil {
			continue
		}
		pause(ctx, outages.failed(ctx, err), nil)
	}
}

// watchOnce lists and watches our Node until the watch ends. An error asks for a pause before the
// next watch. works is called when the watch has lasted for a while.
func (r *Reporter) watchOnce(ctx context.Context, works func()) error {
	began := time.Now()
	nodes := r.config.Watch.Nodes()
	ours := fields.OneTermEqualSelector(metav1.ObjectNameField, r.config.Settings.Name).String()
	from, err := r.list(ctx, ours)
	if err != nil {
		return err
	}
	lasts := int64((minWatchTimeout + rand.N(minWatchTimeout)) / time.Second)
	w, err := nodes.Watch(ctx, metav1.ListOptions{FieldSelector: ours, ResourceVersion: from, TimeoutSeconds: &lasts})
	if err != nil {
		return fmt.Errorf("watch node %s: %w", r.config.Settings.Name, err)
	}
	defer w.Stop()
	settled := time.NewTimer(minWatch)
	defer settled.Stop()
	for {
		select {
		case <-settled.C:
			works()
		case e, open := <-w.ResultChan():
			switch {
			case !open && time.Since(began) < minWatch:
				return errors.New("the watch ended as soon as it began")
			case !open:
				return nil
			}
			if err := r.handleEvent(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// list reads the Node, or finds that there is none, and returns the resource version at which a
// watch has to begin.
func (r *Reporter) list(ctx context.Context, selector string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	before := r.uid()
	list, err := r.config.Watch.Nodes().List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return "", fmt.Errorf("list node %s: %w", r.config.Settings.Name, err)
	}
	if len(list.Items) == 0 {
		r.observeDeletion(before)
	}
	for i := range list.Items {
		r.observeNode(&list.Items[i])
	}
	return list.ResourceVersion, nil
}

func (r *Reporter) handleEvent(e watch.Event) error {
	node, isNode := e.Object.(*v1.Node)
	switch {
	case e.Type == watch.Error:
		return fmt.Errorf("watch node %s: %w", r.config.Settings.Name, apierrors.FromObject(e.Object))
	case !isNode:
		return fmt.Errorf("watch node %s: a %T came", r.config.Settings.Name, e.Object)
	case e.Type == watch.Deleted:
		r.observeDeletion(node.UID)
	default:
		r.observeNode(node)
	}
	return nil
}
