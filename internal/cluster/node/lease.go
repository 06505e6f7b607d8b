package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// keepLease renews the Lease, by which the cluster knows that this node lives. The Node owns
// the Lease, so renewals begin when the Node is known.
//
// The lease controller of component-helpers would not do: it reports neither the end of an outage, after
// which the Node is read again, nor failed reads, after which a dead connection is replaced; it can't be
// woken when the Node has another UID; and it retries after up to 7 s.
func (r *Reporter) keepLease(ctx context.Context) {
	select {
	case <-r.known:
	case <-ctx.Done():
		return
	}
	outages := &outage{log: r.config.Log, what: "renew the lease of this node"}
	var held *coordination.Lease
	for {
		began := time.Now()
		renewed, err := r.renew(ctx, held)
		held = renewed
		wait, wake := r.config.Lease/4-time.Since(began), r.wakeLease
		switch {
		case err != nil:
			wait, wake = outages.failed(ctx, err), nil
			if stuck := utilnet.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded); r.config.Reconnect != nil && (stuck || outages.failures%stuckAfter == 0) {
				r.config.Reconnect()
			}
		case outages.over():
			// Controllers may have taken this node for dead meanwhile.
			r.markStale()
		}
		if !pause(ctx, wait, wake) {
			return
		}
	}
}

// renew renews the Lease, and returns it as the API server has it now, or nil if the next attempt
// has to read it first.
func (r *Reporter) renew(ctx context.Context, held *coordination.Lease) (*coordination.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, min(callTimeout, r.config.Lease/4))
	defer cancel()
	name := r.config.Settings.Name
	leases := r.config.Client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	if held != nil {
		renewed, err := leases.Update(ctx, r.renewal(held), metav1.UpdateOptions{})
		switch {
		case err == nil:
			return renewed, nil
		case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
			return nil, fmt.Errorf("renew lease %s: %w", name, err)
		}
		// API servers return a conflict if the Lease is gone, and it is deleted with the Node that
		// owns it.
		r.markStale()
	}
	found, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		made, err := leases.Create(ctx, r.renewal(nil), metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("make lease %s: %w", name, err)
		}
		return made, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read lease %s: %w", name, err)
	}
	renewed, err := leases.Update(ctx, r.renewal(found), metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("renew lease %s: %w", name, err)
	}
	return renewed, nil
}

func (r *Reporter) renewal(held *coordination.Lease) *coordination.Lease {
	return renewal(held, r.config.Settings.Name, r.uid(), r.config.Lease, time.Now())
}

// renewal returns the lease that follows held, which may be nil. Its time never goes back:
// controllers would take a node whose clock was set back for dead.
func renewal(held *coordination.Lease, node string, owner types.UID, lasts time.Duration, now time.Time) *coordination.Lease {
	lease := &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: v1.NamespaceNodeLease}}
	if held != nil {
		lease = held.DeepCopy()
		if before := held.Spec.RenewTime; before != nil && !now.After(before.Time) {
			now = before.Add(time.Millisecond)
		}
	}
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: owner}}
	seconds, at := int32(lasts/time.Second), metav1.NewMicroTime(now)
	lease.Spec.HolderIdentity = &node
	lease.Spec.LeaseDurationSeconds = &seconds
	lease.Spec.RenewTime = &at
	return lease
}
