package roots

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/internal/lib/atomicfile"
	"berth/internal/lib/statefile"
)

// RegistryDir holds the claims of all roots of this machine, a file for each. Like cgroups and
// links, it does not survive a reboot.
const RegistryDir = "/run/berth"

const (
	lockInterval = 20 * time.Millisecond
	lockTimeout  = 10 * time.Second
)

// Registry reads and writes the claims of a machine. A lock keeps other processes out meanwhile.
type Registry struct {
	Dir string
	// Occupied reports whether any process is in a cgroup or below it.
	Occupied func(cgroup string) (bool, error)
	// Networks lists the addresses and routes of the network namespace.
	Networks func() ([]netip.Prefix, error)
	// Running reports whether a process still runs.
	Running func(Process) bool
}

// NotRecordedError says that a claim has no conflicts, but could not be written: other agents will
// not know of it.
type NotRecordedError struct{ Err error }

func (e *NotRecordedError) Error() string {
	return fmt.Sprintf("record what this root directory owns, for other agents of this machine: %v", e.Err)
}

func (e *NotRecordedError) Unwrap() error { return e.Err }

// Acquire claims c for its root, in place of the claim that the root had. If c conflicts with
// another root, the error is a *ConflictError, and nothing is changed. With a *NotRecordedError
// the Owner is valid nevertheless.
func (r Registry) Acquire(c Claim) (Owner, error) {
	return r.acquire(c, func(_ kind, e *ConflictError) error { return e })
}

// AcquireFree claims the parts of c that no other root has claimed, so that a root can be taken
// down which shares something with another one. It also returns the conflicts of the other parts.
// A root within another root is refused: its files can't be distinguished from those of the other.
func (r Registry) AcquireFree(c Claim) (Owner, []error, error) {
	var lacking []error
	lacks := map[kind]bool{}
	c.Ports = nil
	o, err := r.acquire(c, func(k kind, e *ConflictError) error {
		if k == kindRoot {
			return e
		}
		lacks[k] = true
		lacking = append(lacking, e)
		return nil
	})
	o.lacks = lacks
	return o, lacking, err
}

func (r Registry) acquire(c Claim, clash func(kind, *ConflictError) error) (Owner, error) {
	locked, lockErr := r.lock()
	if lockErr == nil {
		defer locked.release()
	}
	others, err := r.others(c)
	if err != nil {
		return Owner{}, err
	}
	clashes := false
	for _, other := range others {
		conflicts := c.conflicts(other, r.Running(other.Agent))
		for k := kindRoot; k <= kindPort; k++ {
			if e := conflicts[k]; e != nil {
				clashes = true
				if err := clash(k, e); err != nil {
					return Owner{}, err
				}
			}
		}
	}
	if c.Network != nil && !c.Network.PodCIDR.IsValid() {
		chosen, err := r.choosePodCIDR(c, others)
		if err != nil {
			return Owner{}, err
		}
		c.Network = &Network{Bridge: c.Network.Bridge, PodCIDR: chosen}
	}
	o := Owner{claim: c}
	if clashes { // claims that conflict can't both be recorded
		return o, nil
	}
	if err := errors.Join(lockErr, r.write(c)); err != nil {
		return o, &NotRecordedError{err}
	}
	return o, nil
}

// choosePodCIDR chooses a pod network that overlaps with no network of another root or of the
// machine.
func (r Registry) choosePodCIDR(c Claim, others []Claim) (netip.Prefix, error) {
	taken, err := r.Networks()
	if err != nil {
		return netip.Prefix{}, err
	}
	for _, other := range others {
		if other.NetNS == c.NetNS && other.Network != nil {
			taken = append(taken, other.Network.PodCIDR)
		}
	}
	return choosePodCIDR(c.ID, taken)
}

// Find returns the claim of the root directory at the path resolved, or nil.
func (r Registry) Find(resolved string) (*Claim, error) {
	claims, err := r.All()
	if err != nil {
		return nil, err
	}
	for _, c := range claims {
		if c.Resolved == resolved {
			return &c, nil
		}
	}
	return nil, nil
}

// Users returns the claims of the roots, but for the one at the path resolved, whose pods are in the
// runtime at endpoint.
func (r Registry) Users(resolved, endpoint string) ([]Claim, error) {
	locked, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer locked.release()
	others, err := r.others(Claim{Resolved: resolved})
	return slices.DeleteFunc(others, func(c Claim) bool { return c.Runtime != endpoint }), err
}

// WithOtherRoots calls do with the root directories of the other agents of this machine, while it
// holds the lock of the Registry. If the lock can't be had, do is called nevertheless.
func (r Registry) WithOtherRoots(o Owner, do func(roots []string) error) error {
	if locked, err := r.lock(); err == nil {
		defer locked.release()
	}
	others, err := r.others(o.claim)
	if err != nil {
		return err
	}
	var roots []string
	for _, c := range others {
		roots = append(roots, c.Resolved)
	}
	return do(roots)
}

// Release removes the claim of an Owner.
func (r Registry) Release(o Owner) error {
	locked, err := r.lock()
	if err != nil {
		return err
	}
	defer locked.release()
	if err := r.remove(o.claim.ID); err != nil {
		return fmt.Errorf("release what root directory %s owned: %w", o.claim.Root, err)
	}
	_ = os.Remove(r.Dir) // if that was the last one
	return nil
}

// others returns the claims of other roots, without those that are stale: their root
// directory is gone, and nothing of them runs.
func (r Registry) others(c Claim) ([]Claim, error) {
	claims, err := r.All()
	if err != nil {
		return nil, err
	}
	var out []Claim
	for _, other := range claims {
		if other.Resolved == c.Resolved {
			if c.ID != "" && other.ID != c.ID { // the same directory by another path
				_ = r.remove(other.ID)
			}
			continue
		}
		if r.stale(other) {
			_ = r.remove(other.ID) // if that fails, it is found stale again
			continue
		}
		out = append(out, other)
	}
	return out, nil
}

func (r Registry) stale(c Claim) bool {
	if _, err := os.Lstat(c.Resolved); !errors.Is(err, fs.ErrNotExist) || r.Running(c.Agent) {
		return false
	}
	occupied, err := r.Occupied(c.CgroupRoot)
	return err == nil && !occupied // after an error, the claim may still be in use
}

// All returns the claims of all roots, stale ones included. Files that are no claims are ignored.
func (r Registry) All() ([]Claim, error) {
	entries, err := os.ReadDir(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find out what other root directories own: %w", err)
	}
	var out []Claim
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		c, err := statefile.ReadRecord[Claim](r.Dir, e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil && !statefile.IsDamaged(err) {
			return nil, fmt.Errorf("find out what other root directories own: %w", err)
		}
		if err != nil || c.Resolved == "" || r.file(c.ID) != filepath.Join(r.Dir, e.Name()) {
			continue
		}
		out = append(out, c)
	}
	return out, nil
}

func (r Registry) write(c Claim) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Replace(r.file(c.ID), append(text, '\n'), 0o644)
}

func (r Registry) file(id string) string { return filepath.Join(r.Dir, id+".json") }

// registryLock is the flock(2) of the folder of claims.
type registryLock struct{ dir *os.File }

// lock makes the folder of claims if need be, and waits for its lock.
func (r Registry) lock() (*registryLock, error) {
	deadline := time.Now().Add(lockTimeout)
	for {
		l, err := r.tryLock()
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, fs.ErrNotExist) {
			return l, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("lock %s, which another berth has held for %s: %w", r.Dir, lockTimeout, err)
		}
		time.Sleep(lockInterval)
	}
}

func (r Registry) tryLock() (*registryLock, error) {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of what root directories own: %w", err)
	}
	dir, err := os.Open(r.Dir)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", r.Dir, err)
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	// The process that releases the last claim removes the folder, perhaps between Open and Flock.
	is, err := dir.Stat()
	if err == nil {
		var now os.FileInfo
		if now, err = os.Stat(r.Dir); err == nil && !os.SameFile(is, now) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return &registryLock{dir}, nil
}

func (l *registryLock) release() { _ = l.dir.Close() }
