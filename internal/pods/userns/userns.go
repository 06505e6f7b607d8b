// Package userns assigns a range of host ids to each pod with a user namespace (hostUsers: false). It
// is the only writer of <pods>/<uid>/userns.
//
// What always holds:
//   - The ranges of pods do not overlap, nor do those of pods of other agents on this machine.
//   - A range is recorded in the directory of its pod before it is used. It is found there after a restart, and is free
//     again once that directory is gone.
//   - The ids below DefaultCount belong to the machine and are never assigned. If the machine has subordinate ids for
//     pods, only those are assigned.
package userns

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"berth/internal/lib/atomicfile"
	"berth/internal/lib/pod"
	"berth/internal/lib/podfile"
	"berth/internal/lib/statefile"
	"berth/internal/runtime/render"
)

// DefaultCount is the default number of ids of a pod: as many as images may use.
const DefaultCount = 65536

// fileName is the name of the record in the directory of a pod.
const fileName = "userns"

// Config is checked by New.
type Config struct {
	PodsDir string // a pod's directory is <PodsDir>/<uid>
	Count   uint32 // ids of a pod, a multiple of DefaultCount; 0: DefaultCount
	// Range returns the ids that may be assigned to pods, see SubordinateIDs. Zero, and a nil func: all but
	// the first DefaultCount. It is called when a pod needs ids, until it succeeds.
	Range func() (render.IDs, error)
	// Others calls allocate with the directories of pods of the other agents on this machine, while
	// none of these agents allocates ids. Nil: there are no others.
	Others func(allocate func(podsDirs []string) error) error
	Log    *slog.Logger
}

// Manager assigns ranges. It may be used from several goroutines.
type Manager struct {
	cfg Config

	rangeMu sync.Mutex  // never locked while mu is held: Range may take a while
	allowed *render.IDs // nil: Range has not succeeded yet

	mu     sync.Mutex
	pods   map[pod.UID]render.IDs
	unread map[pod.UID]error // pods with unreadable records
}

// New reads the records of all pods.
func New(c Config) (*Manager, error) {
	if c.Count == 0 {
		c.Count = DefaultCount
	}
	if c.PodsDir == "" || c.Log == nil {
		return nil, errors.New("userns: the directory of pods and a log are required")
	}
	if c.Others == nil {
		c.Others = func(allocate func([]string) error) error { return allocate(nil) }
	}
	if c.Count%DefaultCount != 0 || c.Count > 1<<31 {
		return nil, fmt.Errorf("userns: a pod can't have %d ids: it must be a multiple of %d, and less than half of all", c.Count, DefaultCount)
	}
	m := &Manager{cfg: c, pods: map[pod.UID]render.IDs{}, unread: map[pod.UID]error{}}
	err := podfile.Each(c.PodsDir, ".", func(e fs.DirEntry) error {
		ids, err := read(c.PodsDir, pod.UID(e.Name()))
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			c.Log.Warn("can't read which ids a pod has: until it is gone, no other pod is given any", "uid", e.Name(), "err", err)
			m.unread[pod.UID(e.Name())] = err
		default:
			m.pods[pod.UID(e.Name())] = ids
		}
		return nil
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("find the ids that pods have: %w", err)
	}
	return m, nil
}

// Allocate returns the ids of a pod, whose directory exists. A pod without ids gets the first free
// range. Calls for one pod must not be concurrent.
func (m *Manager) Allocate(uid pod.UID) (render.IDs, error) {
	if strings.ContainsAny(string(uid), "/\x00") || uid == "" || uid == "." || uid == ".." {
		return render.IDs{}, fmt.Errorf("UID %q can't name a directory", uid)
	}
	ids, err := m.idsOf(uid)
	if errors.Is(err, os.ErrNotExist) {
		var within render.IDs
		if within, err = m.allowedRange(); err == nil {
			ids, err = m.assign(uid, within)
		}
	}
	if err != nil {
		return render.IDs{}, fmt.Errorf("find ids for the users of a pod: %w", err)
	}
	return ids, nil
}

// idsOf returns the recorded ids of a pod.
func (m *Manager) idsOf(uid pod.UID) (render.IDs, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ids, ok := m.pods[uid]; ok {
		return ids, nil
	}
	ids, err := read(m.cfg.PodsDir, uid)
	if err == nil {
		m.pods[uid] = ids
	}
	return ids, err
}

// allowedRange returns the ids that may be assigned to pods.
func (m *Manager) allowedRange() (render.IDs, error) {
	m.rangeMu.Lock()
	defer m.rangeMu.Unlock()
	if m.cfg.Range == nil {
		return render.IDs{}, nil
	}
	if m.allowed == nil {
		ids, err := m.cfg.Range()
		if err != nil {
			return render.IDs{}, err
		}
		m.allowed = &ids
	}
	return *m.allowed, nil
}

// assign gives a pod the first ids that are free.
func (m *Manager) assign(uid pod.UID, within render.IDs) (ids render.IDs, err error) {
	err = m.cfg.Others(func(podsDirs []string) error {
		elsewhere := idsIn(podsDirs)
		m.mu.Lock()
		defer m.mu.Unlock()
		if ids, err = m.firstFree(within, elsewhere); err != nil {
			return err
		}
		if err := m.write(uid, ids); err != nil {
			return err
		}
		m.pods[uid] = ids
		return nil
	})
	return ids, err
}

// idsIn returns the ids of the pods in several directories of pods. Those that can't be read
// are left out: their agent says so, and gives none to others.
func idsIn(podsDirs []string) []render.IDs {
	var out []render.IDs
	for _, dir := range podsDirs {
		_ = podfile.Each(dir, ".", func(e fs.DirEntry) error {
			if ids, err := read(dir, pod.UID(e.Name())); err == nil {
				out = append(out, ids)
			}
			return nil
		})
	}
	return out
}

// Release frees the ids of a pod whose directory is gone.
func (m *Manager) Release(uid pod.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
	delete(m.unread, uid)
}

// firstFree finds the lowest range that no pod has a part of, here or elsewhere. m.mu is held.
func (m *Manager) firstFree(within render.IDs, elsewhere []render.IDs) (render.IDs, error) {
	for uid, err := range m.unread { // it may have any
		return render.IDs{}, fmt.Errorf("those of pod %s are not known: remove that pod first: %w", uid, err)
	}
	taken := map[uint32]bool{} // by the number of their DefaultCount ids
	for _, ids := range slices.AppendSeq(elsewhere, maps.Values(m.pods)) {
		for at := ids.First / DefaultCount; at <= (ids.First+ids.Count-1)/DefaultCount; at++ {
			taken[at] = true
		}
	}
	width := m.cfg.Count / DefaultCount
	const last = 1<<16 - 1 // the last block has the id (uid_t)-1, which is none
	from, to := uint32(1), uint32(last)
	if within.Count > 0 {
		from, to = within.First/DefaultCount, min(to, within.First/DefaultCount+within.Count/DefaultCount)
	}
	if to-from < width {
		return render.IDs{}, fmt.Errorf("a pod is to have %d, and %d were set aside for all", m.cfg.Count, within.Count)
	}
	run := uint32(0)
	for at := from; at < to; at++ {
		run++
		if taken[at] {
			run = 0
		}
		if run == width {
			return render.IDs{First: (at - width + 1) * DefaultCount, Count: m.cfg.Count}, nil
		}
	}
	return render.IDs{}, fmt.Errorf("all ids are taken by %d pods of this agent and %d of others on this machine", len(m.pods), len(elsewhere))
}

// record is the file of a pod, in the format of the kubelet.
type record struct {
	UIDMappings []mapping `json:"uidMappings"`
	GIDMappings []mapping `json:"gidMappings"`
}

type mapping struct {
	HostID      uint32 `json:"hostId"`
	ContainerID uint32 `json:"containerId"`
	Length      uint32 `json:"length"`
}

func read(podsDir string, uid pod.UID) (render.IDs, error) {
	path := filepath.Join(podsDir, string(uid), fileName)
	r, err := statefile.ReadRecord[record](podsDir, filepath.Join(string(uid), fileName))
	if statefile.IsDamaged(err) {
		return render.IDs{}, fmt.Errorf("the record of its ids is broken: %w", err)
	}
	if err != nil {
		return render.IDs{}, err
	}
	if len(r.UIDMappings) != 1 || len(r.GIDMappings) != 1 || r.UIDMappings[0] != r.GIDMappings[0] {
		return render.IDs{}, fmt.Errorf("%s is broken: want one range, the same for users and groups", path)
	}
	one := r.UIDMappings[0]
	if one.ContainerID != 0 || one.HostID < DefaultCount || one.Length == 0 || uint64(one.HostID)+uint64(one.Length) > 1<<32 {
		return render.IDs{}, fmt.Errorf("%s is broken: no pod can have ids %d to %d", path, one.HostID, uint64(one.HostID)+uint64(one.Length))
	}
	return render.IDs{First: one.HostID, Count: one.Length}, nil
}

// write replaces the record, and syncs it to disk.
func (m *Manager) write(uid pod.UID, ids render.IDs) error {
	one := []mapping{{HostID: ids.First, Length: ids.Count}}
	data, err := json.Marshal(record{UIDMappings: one, GIDMappings: one})
	if err != nil {
		return err
	}
	return atomicfile.ReplaceForGood(filepath.Join(m.cfg.PodsDir, string(uid), fileName), data, 0o600)
}
