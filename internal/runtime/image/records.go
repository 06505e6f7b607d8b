package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/keyring"
)

// Records is the memory of who pulled what, so that an image which is there is used
// only by those who could have pulled it. It is two folders of small files, in the
// kubelet's format: pulling has the images that somebody began to pull, and pulled
// those that came, with the hashes of the credentials that they came by.
//
// A name in pulling is written before the pull and removed once what came of it is on
// record: an image that came while nobody could take note of it, because of a crash or
// a full disk, does not count as preloaded. What was there by that name before the pull
// stays what it was. A file that can't be read is one that lets nobody in.
type Records struct {
	policy  Policy
	pulling string
	pulled  string
	log     *slog.Logger

	mu     sync.Mutex
	pulls  map[string]*openPull // by their files in pulling
	broken map[string]bool      // files in pulled that can't be read, and the log says so
}

// openPull is a pull that began, and whose end is not on record.
type openPull struct {
	running int      // how many pull that image just now
	before  string   // what was there by its name
	owed    []string // what came, and is not on record
}

// OpenRecords makes the folders below dir, if there is room for them. If not, they are made
// with the first record.
func OpenRecords(dir string, p Policy, log *slog.Logger) *Records {
	r := &Records{
		policy: p, pulling: filepath.Join(dir, "pulling"), pulled: filepath.Join(dir, "pulled"), log: log,
		pulls: map[string]*openPull{}, broken: map[string]bool{},
	}
	for _, d := range []string{r.pulling, r.pulled} {
		_ = os.MkdirAll(d, 0o700)
	}
	return r
}

// Settle makes records of the pulls that a crash cut off. refOf says which image is
// there by a name. It is called before any pull begins, and again if the runtime did not
// answer.
func (r *Records) Settle(ctx context.Context, refOf func(ctx context.Context, image string) (string, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	entries, err := os.ReadDir(r.pulling)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read image records: %w", err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), unfinished) { // the pull did not begin
			_ = os.Remove(filepath.Join(r.pulling, e.Name()))
			continue
		}
		err := r.settle(ctx, e.Name(), refOf)
		if errors.Is(err, pod.ErrNoAnswer) {
			return fmt.Errorf("find out what came of a pull that was cut off: %w", err)
		}
		if err != nil {
			r.log.Warn("a pull was cut off, and what came of it is not known: pods have to pull that image again", "err", err)
		}
	}
	return nil
}

// settle ends a pull that was cut off. If it can't, nothing that is there by that name
// counts as preloaded.
func (r *Records) settle(ctx context.Context, file string, refOf func(ctx context.Context, image string) (string, error)) error {
	p := &openPull{}
	r.pulls[file] = p
	i, err := readIntent(filepath.Join(r.pulling, file))
	if err != nil {
		return err
	}
	p.before = i.Before
	ref, err := refOf(ctx, i.Image)
	if err != nil {
		return err
	}
	if ref != "" && ref != i.Before {
		p.owed = []string{ref}
	}
	return r.finish(file, p)
}

// finish forgets a pull when all that came of it is on record. The caller holds the lock.
func (r *Records) finish(file string, p *openPull) error {
	for len(p.owed) > 0 {
		if err := r.touch(p.owed[0]); err != nil {
			return err
		}
		p.owed = p.owed[1:]
	}
	if err := remove(filepath.Join(r.pulling, file)); err != nil {
		return err
	}
	delete(r.pulls, file)
	return nil
}

// touch makes a record that lets nobody in, unless there is one.
func (r *Records) touch(ref string) error {
	if r.read(ref) != nil {
		return nil
	}
	return r.write(kubelet.ImagePulledRecord{ImageRef: ref})
}

// Allows tells whether somebody with these credentials may use an image that is there.
func (r *Records) Allows(image, repository, ref string, shown func() Shown) bool {
	if r.policy.Verify == kubelet.NeverVerify {
		return true
	}
	r.mu.Lock()
	record := r.read(ref)
	pulled := record != nil || r.pulledUnrecorded(image, ref)
	r.mu.Unlock() // to find out what is shown may take its time
	if !r.policy.needsVerification(repository, pulled) || covers(record, repository, Shown{}) {
		return true
	}
	return covers(record, repository, shown())
}

// pulledUnrecorded tells whether an image came by a pull that is not on record yet. The caller
// holds the lock.
func (r *Records) pulledUnrecorded(image, ref string) bool {
	p := r.pulls[fileOf(image)]
	return p != nil && ref != p.before || r.owes(ref)
}

func (r *Records) owes(ref string) bool {
	for _, p := range r.pulls {
		if slices.Contains(p.owed, ref) {
			return true
		}
	}
	return false
}

// Begin takes note of a pull that begins. before is what is there by that name, if
// anything is.
func (r *Records) Begin(image, before string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	file := fileOf(image)
	p := r.pulls[file]
	if p == nil {
		if r.owes(before) { // it came by another name, and nobody knows for whom
			before = ""
		}
		p = &openPull{before: before}
		if err := writeIntent(filepath.Join(r.pulling, file), image, before); err != nil {
			return fmt.Errorf("take note of the pull of %s: %w", image, err)
		}
		r.pulls[file] = p
	}
	p.running++
	return nil
}

// End takes note of a pull that began and has ended. ref is empty if it failed.
func (r *Records) End(image, repository, ref string, by keyring.Credential) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	file := fileOf(image)
	p := r.pulls[file]
	p.running--
	if ref != "" {
		if err := r.add(p, repository, ref, by); err != nil {
			p.owed = append(without(p.owed, ref), ref)
			return fmt.Errorf("take note that %s was pulled: %w", image, err)
		}
		p.owed = without(p.owed, ref)
	}
	if p.running > 0 {
		return nil
	}
	if err := r.finish(file, p); err != nil {
		return fmt.Errorf("take note that the pull of %s has ended: %w", image, err)
	}
	return nil
}

func (r *Records) add(p *openPull, repository, ref string, by keyring.Credential) error {
	record := r.read(ref)
	if record == nil {
		if ref == p.before && !r.policy.needsVerification(repository, false) {
			return nil // it was preloaded, and stays so
		}
		record = &kubelet.ImagePulledRecord{ImageRef: ref}
	}
	now := withPull(*record, repository, by)
	if reflect.DeepEqual(now.CredentialMapping, record.CredentialMapping) {
		return nil
	}
	return r.write(now)
}

// Loaded takes note of an image that came out of an archive. Whoever put it there meant
// it for all pods.
func (r *Records) Loaded(image, ref string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.drop(fileFor(ref)); err != nil {
		return err
	}
	for _, p := range r.pulls {
		p.owed = without(p.owed, ref)
	}
	file := fileOf(image)
	p := r.pulls[file]
	if p == nil {
		return nil
	}
	p.before = ref
	if p.running == 0 {
		return r.finish(file, p)
	}
	return writeIntent(filepath.Join(r.pulling, file), image, ref)
}

// Prune drops the records of images that are not there any more, and that nobody
// has written to since before.
func (r *Records) Prune(there map[string]bool, before time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	entries, err := os.ReadDir(r.pulled)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read image records: %w", err)
	}
	files := map[string]bool{}
	for ref := range there {
		files[fileFor(ref)] = true
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || files[e.Name()] || !info.ModTime().Before(before) {
			continue
		}
		if err := r.drop(e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// drop removes a record, if it is there.
func (r *Records) drop(file string) error {
	if err := remove(filepath.Join(r.pulled, file)); err != nil {
		return fmt.Errorf("drop an image record: %w", err)
	}
	delete(r.broken, file)
	return nil
}

// read returns the record of an image, or nil if there is none. One that can't be read
// lets nobody in, and is written anew by the next pull.
func (r *Records) read(ref string) *kubelet.ImagePulledRecord {
	file := fileFor(ref)
	record, err := readPulled(filepath.Join(r.pulled, file), ref)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		return record
	}
	if !r.broken[file] {
		r.broken[file] = true
		r.log.Warn("a record of an image can't be read: pods have to pull that image again", "image", ref, "err", err)
	}
	return &kubelet.ImagePulledRecord{ImageRef: ref}
}

func (r *Records) write(record kubelet.ImagePulledRecord) error {
	file := fileFor(record.ImageRef)
	if err := writePulled(filepath.Join(r.pulled, file), record); err != nil {
		return err
	}
	delete(r.broken, file)
	return nil
}

func without(refs []string, ref string) []string {
	return slices.DeleteFunc(refs, func(one string) bool { return one == ref })
}
