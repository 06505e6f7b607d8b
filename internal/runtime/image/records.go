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

// Records keeps the credentials that each image was pulled with, so that an image which is
// present is used only by pods that could have pulled it. It is two folders of small files,
// in the kubelet's format: pulling has the images whose pull began, and pulled those whose
// pull succeeded, with the hashes of the credentials.
//
// A file in pulling is written before the pull and removed once its result is on record: an
// image whose pull could not be recorded, because of a crash or a full disk, does not count
// as preloaded. An image that had the name before the pull stays what it was. A record that
// can't be read covers no pod.
type Records struct {
	policy  Policy
	pulling string
	pulled  string
	log     *slog.Logger

	mu     sync.Mutex
	pulls  map[string]*openPull // by their files in pulling
	broken map[string]bool      // files in pulled that can't be read, which was logged
}

// openPull is a pull that began, and whose result is not on record yet.
type openPull struct {
	running int      // pulls of that image that run
	before  string   // reference of the image that had the name before; may be empty
	owed    []string // references of pulled images that are not on record yet
}

// OpenRecords makes the folders below dir. If that fails, such as on a full disk, they are made
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

// RecoverPulls makes records of the pulls that a crash cut off. refOf returns the reference of the
// image that has a name. RecoverPulls is called before any pull begins, and again if the runtime
// did not answer.
func (r *Records) RecoverPulls(ctx context.Context, refOf func(ctx context.Context, image string) (string, error)) error {
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
		err := r.recoverPull(ctx, e.Name(), refOf)
		if errors.Is(err, pod.ErrNoAnswer) {
			return fmt.Errorf("find out what came of a pull that was cut off: %w", err)
		}
		if err != nil {
			r.log.Warn("a pull was cut off, and what came of it is not known: pods have to pull that image again", "err", err)
		}
	}
	return nil
}

// recoverPull makes a record of a pull that was cut off. If it can't, no image of that name counts
// as preloaded.
func (r *Records) recoverPull(ctx context.Context, file string, refOf func(ctx context.Context, image string) (string, error)) error {
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

// finish forgets a pull once all of its images are on record. The caller holds the lock.
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

// touch makes a record that covers no pod, unless the image has a record.
func (r *Records) touch(ref string) error {
	if r.read(ref) != nil {
		return nil
	}
	return r.write(kubelet.ImagePulledRecord{ImageRef: ref})
}

// Check decides whether a pod with these credentials may use an image that is present.
func (r *Records) Check(image, repository, ref string, credentials func() PodCredentials) Verdict {
	if r.policy.Verify == kubelet.NeverVerify {
		return AllowedByPolicy
	}
	r.mu.Lock()
	record := r.read(ref)
	pulled := record != nil || r.pulledUnrecorded(image, ref)
	r.mu.Unlock() // to find out the credentials may take its time
	switch {
	case !r.policy.needsVerification(repository, pulled):
		return AllowedByPolicy
	case covers(record, repository, PodCredentials{}), covers(record, repository, credentials()):
		return AllowedByRecord
	default:
		return MustAuthenticate
	}
}

// Counts returns how many images have a record, and how many pulls go on or are not on record yet.
func (r *Records) Counts() (pulled, pulling int) {
	count := func(dir string) (n int) {
		entries, err := os.ReadDir(dir)
		if err != nil { // it is made with the first record
			return 0
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), unfinished) {
				n++
			}
		}
		return n
	}
	return count(r.pulled), count(r.pulling)
}

// pulledUnrecorded reports whether an image is the result of a pull that is not on record yet. The
// caller holds the lock.
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

// Begin records that a pull begins. before is the reference of the image that has the name
// now, if there is one.
func (r *Records) Begin(image, before string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	file := fileOf(image)
	p := r.pulls[file]
	if p == nil {
		if r.owes(before) { // it was pulled by another name, with unknown credentials
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

// End records the result of a pull that began. ref is empty if it failed.
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

// Loaded records that an image was loaded from an archive: all pods may use it.
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

// Prune drops the records of images that are not present any more, unless they were written
// after before.
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

// read returns the record of an image, or nil if there is none. A record that can't be read
// covers no pod, and is written anew by the next pull.
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
