package control

import (
	"context"
	"errors"
	"os"
	"slices"
)

// WipeEtcd restarts everything that runs with an empty store.
func (p *Plane) WipeEtcd(ctx context.Context) error {
	return p.withoutParts(ctx, func() error { return os.RemoveAll(p.etcdData()) })
}

// BackUpEtcd restarts everything that runs, and copies the store meanwhile to a folder
// that is not there yet.
func (p *Plane) BackUpEtcd(ctx context.Context, backup string) error {
	return p.withoutParts(ctx, func() error { return os.CopyFS(backup, os.DirFS(p.etcdData())) })
}

// RestoreEtcd restarts everything that runs with the store of a backup.
func (p *Plane) RestoreEtcd(ctx context.Context, backup string) error {
	return p.withoutParts(ctx, func() error {
		return errors.Join(os.RemoveAll(p.etcdData()), os.CopyFS(p.etcdData(), os.DirFS(backup)))
	})
}

// withoutParts does something to the store while nothing runs. The other parts are
// restarted, too, for none of them copes with a store that went back in time.
func (p *Plane) withoutParts(ctx context.Context, do func() error) error {
	var again []Part
	for _, part := range slices.Backward(order) {
		if !p.Running(part) {
			continue
		}
		again = append(again, part)
		if err := p.Stop(part); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	slices.Reverse(again)
	return p.startAll(ctx, again)
}
