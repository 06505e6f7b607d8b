package roots

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
)

// AcquireForRun names a root and claims what it needs of the machine, for the agent that is about to run. before
// are the names that the last agent of the root had, or nil. It returns the request with all names. Nothing of
// the machine is touched yet.
func (r Registry) AcquireForRun(want Request, before *Names, log *slog.Logger) (Request, Owner, error) {
	given := want.PodCIDR.IsValid()
	want, err := want.Named(before)
	if err != nil {
		return want, Owner{}, err
	}
	netNS, err := CurrentNetNS()
	if err != nil {
		return want, Owner{}, err
	}
	// What was chosen last may not have been written down: its disk is full.
	last, err := r.Find(want.Names.Root)
	if err != nil {
		return want, Owner{}, err
	}
	bundled := want.Runtime == ""
	if bundled && last != nil && last.Network != nil {
		want = want.withPodCIDR(last.Network.PodCIDR)
	}
	owner, err := r.Acquire(want.claim(netNS, ThisProcess()))
	var conflict *ConflictError
	if used, _ := InUse(want.Root); errors.As(err, &conflict) && !used && !given && bundled && want.Root != Default {
		want.PodCIDR = netip.Prefix{} // another root has it by now, and no pod of this root does
		owner, err = r.Acquire(want.claim(netNS, ThisProcess()))
	}
	if err := warnUnrecorded(err, log); err != nil {
		return want, Owner{}, err
	}
	return want.withPodCIDR(owner.PodCIDR()), owner, nil
}

// AcquireForTeardown claims what is to be taken down of a root, with the settings of its last run. What
// another root has claimed since then is left alone. It returns the request with all names.
func (r Registry) AcquireForTeardown(had Request, log *slog.Logger) (Request, Owner, error) {
	if used, err := InUse(had.Root); err == nil {
		had = had.withoutSharedNames(used)
	}
	had, err := had.Named(&had.Names)
	if err != nil {
		return had, Owner{}, err
	}
	netNS, err := CurrentNetNS()
	if err != nil {
		return had, Owner{}, err
	}
	before, err := r.Find(had.Names.Root)
	if err != nil {
		return had, Owner{}, err
	}
	if before != nil {
		netNS = before.NetNS // its links are there, wherever this process is
	}
	owner, lacking, err := r.AcquireFree(had.claim(netNS, ThisProcess()))
	if err := warnUnrecorded(err, log); err != nil {
		return had, Owner{}, err
	}
	for _, err := range lacking {
		log.Warn("this is left alone", "err", err)
	}
	return had.withPodCIDR(owner.PodCIDR()), owner, nil
}

// warnUnrecorded lets a claim count that can't be written down: pods are more important.
func warnUnrecorded(err error, log *slog.Logger) error {
	var unrecorded *NotRecordedError
	if errors.As(err, &unrecorded) {
		log.Warn("agents of other root directories will not know what is ours", "err", err)
		return nil
	}
	return err
}

// CheckUsers refuses to take down a root directory if pods of other roots run in its container runtime, which
// listens at endpoint.
func (r Registry) CheckUsers(root, endpoint string) error {
	resolved, err := filepath.EvalSymlinks(root)
	if err != nil {
		return fmt.Errorf("find the root directory: %w", err)
	}
	users, err := r.Users(resolved, endpoint)
	if err != nil {
		return err
	}
	var errs []error
	for _, u := range users {
		errs = append(errs, fmt.Errorf("pods of root directory %s run in the container runtime of this one: run 'berth down --root-dir %s' first", u.Root, u.Root))
	}
	return errors.Join(errs...)
}
