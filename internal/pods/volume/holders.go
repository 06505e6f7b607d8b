package volume

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"berth/internal/lib/pod"
	"berth/internal/lib/podfile"
	"berth/internal/lib/statefile"
)

// holders is an index in memory of the pods that hold persistent volumes. With it, a pod can be given
// a volume without reading the records of all others.
//
// It is loaded from the records when it is first needed, and updated together with them, see change:
// only the Manager writes and removes records. While a record can't be read, parsed or written, all
// records are read each time.
type holders struct {
	files sync.RWMutex // held for reading while one record changes, for writing while all are read

	mu         sync.Mutex
	filled     bool
	incomplete bool                          // a record is not valid: a pod may hold a volume that is not in the index
	pods       map[pod.UID]map[string]record // by the name of the volume in the pod
	users      map[string]map[pod.UID]int    // by persistent volume: the number of volumes of the pod that are bound to it
}

// change writes or removes the file of a record, and then updates the index.
func (h *holders) change(file func() error, entry func()) error {
	h.files.RLock()
	defer h.files.RUnlock()
	err := file()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.filled = false // the file may be the old one, or the new one
		return err
	}
	if h.filled {
		entry()
	}
	return nil
}

// podDirGone removes a pod without a directory, and so without records, from the index.
func (h *holders) podDirGone(uid pod.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetPod(uid)
}

// put requires that the lock is held, like forget and forgetPod.
func (h *holders) put(uid pod.UID, volume string, r record) {
	h.forget(uid, volume)
	if r.Persistent == "" {
		return
	}
	if h.pods[uid] == nil {
		h.pods[uid] = map[string]record{}
	}
	h.pods[uid][volume] = r
	if h.users[r.Persistent] == nil {
		h.users[r.Persistent] = map[pod.UID]int{}
	}
	h.users[r.Persistent][uid]++
}

func (h *holders) forget(uid pod.UID, volume string) {
	r, ok := h.pods[uid][volume]
	if !ok {
		return
	}
	if delete(h.pods[uid], volume); len(h.pods[uid]) == 0 {
		delete(h.pods, uid)
	}
	of := h.users[r.Persistent]
	if of[uid]--; of[uid] == 0 {
		delete(of, uid)
	}
	if len(of) == 0 {
		delete(h.users, r.Persistent)
	}
}

func (h *holders) forgetPod(uid pod.UID) {
	for volume := range maps.Clone(h.pods[uid]) {
		h.forget(uid, volume)
	}
}

// holdersOf returns the pods that hold a persistent volume, sorted, and whether the index is complete.
func (m *Manager) holdersOf(pv string) (uids []pod.UID, all bool, err error) {
	if err := m.loadHolders(); err != nil {
		return nil, false, err
	}
	h := &m.holders
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.users[pv])), !h.incomplete, nil
}

// recordOf returns the record of a volume that a pod holds, or an empty one.
func (h *holders) recordOf(uid pod.UID, pv string) record {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.pods[uid] {
		if r.Persistent == pv {
			return r
		}
	}
	return record{}
}

// loadHolders reads the records of all pods, unless the index is loaded.
func (m *Manager) loadHolders() error {
	h := &m.holders
	filled := func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.filled
	}
	if filled() {
		return nil
	}
	h.files.Lock()
	defer h.files.Unlock()
	if filled() { // by another goroutine
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.incomplete, h.pods, h.users = false, map[pod.UID]map[string]record{}, map[string]map[pod.UID]int{}
	err := podfile.Each(m.cfg.PodsDir, ".", func(dir fs.DirEntry) error {
		if !dir.IsDir() {
			return nil
		}
		return m.loadHolder(pod.UID(dir.Name()))
	})
	h.filled = err == nil && !h.incomplete
	return err
}

// loadHolder reads the records of one pod.
func (m *Manager) loadHolder(uid pod.UID) error {
	err := podfile.Each(m.cfg.PodsDir, filepath.Join(string(uid), sourcesDir), func(file fs.DirEntry) error {
		if strings.HasSuffix(file.Name(), ".new") { // see package atomicfile: its volume was not mounted yet
			return nil
		}
		r, err := m.readRecord(m.cfg.PodsDir, uid, file.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist): // the pod may be removed at the same time
		case statefile.IsDamaged(err):
			m.holders.incomplete = true
		case err != nil:
			return err
		default:
			m.holders.put(uid, file.Name(), r)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
