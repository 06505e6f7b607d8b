package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"berth/internal/keyring"
)

// Records is the memory of who pulled what, so that an image which is there is used
// only by those who could have pulled it. It is two folders of small files, in the
// kubelet's format: pulling has the images that somebody began to pull, and pulled
// those that came, with the hashes of the credentials that they came by.
//
// A name in pulling is written before the pull and removed after: an image that came
// while nobody could take note of it, because of a crash, does not count as preloaded.
type Records struct {
	policy  Policy
	pulling string
	pulled  string
	log     *slog.Logger

	mu   sync.Mutex
	busy map[string]int // pulls that run, by image
}

// OpenRecords makes the folders below dir, and takes note of pulls that a crash cut off.
func OpenRecords(dir string, p Policy, log *slog.Logger) (*Records, error) {
	r := &Records{
		policy: p, pulling: filepath.Join(dir, "pulling"), pulled: filepath.Join(dir, "pulled"), log: log, busy: map[string]int{},
	}
	for _, d := range []string{r.pulling, r.pulled} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("make the folder of image records: %w", err)
		}
	}
	return r, nil
}

// Settle makes records of the pulls that ended without one. refOf says which image
// is there by a name. It is called before any pull begins.
func (r *Records) Settle(ctx context.Context, refOf func(ctx context.Context, image string) (string, error)) error {
	entries, err := os.ReadDir(r.pulling)
	if err != nil {
		return fmt.Errorf("read image records: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(r.pulling, e.Name())
		var intent kubelet.ImagePullIntent
		if err := readRecord(path, &intent); err == nil && intent.Image != "" {
			ref, err := refOf(ctx, intent.Image)
			if err != nil {
				return fmt.Errorf("settle a pull that was cut off: %w", err)
			}
			if ref != "" {
				if err := r.touch(ref); err != nil {
					return err
				}
			}
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("settle a pull that was cut off: %w", err)
		}
	}
	return nil
}

// touch makes a record that lets nobody in, unless there is one.
func (r *Records) touch(ref string) error {
	record, err := r.read(ref)
	if err != nil || record != nil {
		return err
	}
	return r.write(kubelet.ImagePulledRecord{ImageRef: ref})
}

// Allows tells whether somebody with these credentials may use an image that is there.
func (r *Records) Allows(image, repository, ref string, shown func() Shown) bool {
	if r.policy.Verify == kubelet.NeverVerify {
		return true
	}
	r.mu.Lock()
	record, err := r.read(ref)
	busy := r.busy[image] > 0
	r.mu.Unlock() // to find out what is shown may take its time
	if err != nil {
		r.log.Warn("a record of an image can't be read: its pods have to pull it again", "image", image, "err", err)
		return false
	}
	if !r.policy.asks(repository, record != nil || busy) || covers(record, repository, Shown{}) {
		return true
	}
	return covers(record, repository, shown())
}

// Begin takes note of a pull that begins.
func (r *Records) Begin(image string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[image] == 0 {
		intent := kubelet.ImagePullIntent{TypeMeta: typeMeta("ImagePullIntent"), Image: image}
		if err := writeRecord(filepath.Join(r.pulling, hashed(image)), intent); err != nil {
			return fmt.Errorf("take note of the pull of %s: %w", image, err)
		}
	}
	r.busy[image]++
	return nil
}

// End takes note of a pull that has ended. ref is empty if it failed.
func (r *Records) End(image, repository, ref string, by keyring.Credential) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[image]--; r.busy[image] <= 0 {
		delete(r.busy, image)
	}
	if ref != "" {
		if err := r.add(repository, ref, by); err != nil {
			return fmt.Errorf("take note that %s was pulled: %w", image, err)
		}
	}
	if r.busy[image] > 0 {
		return nil
	}
	if err := os.Remove(filepath.Join(r.pulling, hashed(image))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take note that the pull of %s has ended: %w", image, err)
	}
	return nil
}

func (r *Records) add(repository, ref string, by keyring.Credential) error {
	record, err := r.read(ref)
	if record == nil || err != nil { // a broken one is written anew
		record = &kubelet.ImagePulledRecord{ImageRef: ref}
	}
	now := withPull(*record, repository, by)
	if reflect.DeepEqual(now.CredentialMapping, record.CredentialMapping) {
		return nil
	}
	return r.write(now)
}

// Prune drops the records of images that are not there any more, and that nobody
// has written to since before.
func (r *Records) Prune(there map[string]bool, before time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	entries, err := os.ReadDir(r.pulled)
	if err != nil {
		return fmt.Errorf("read image records: %w", err)
	}
	names := map[string]bool{}
	for ref := range there {
		names[hashed(ref)] = true
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || names[e.Name()] || !info.ModTime().Before(before) {
			continue
		}
		if err := os.Remove(filepath.Join(r.pulled, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("drop an image record: %w", err)
		}
	}
	return nil
}

// read returns the record of an image, or nil if there is none.
func (r *Records) read(ref string) (*kubelet.ImagePulledRecord, error) {
	var record kubelet.ImagePulledRecord
	err := readRecord(filepath.Join(r.pulled, hashed(ref)), &record)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &record, err
}

func (r *Records) write(record kubelet.ImagePulledRecord) error {
	record.TypeMeta, record.LastUpdatedTime = typeMeta("ImagePulledRecord"), metav1.Now()
	return writeRecord(filepath.Join(r.pulled, hashed(record.ImageRef)), record)
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: kubelet.SchemeGroupVersion.String(), Kind: kind}
}

// hashed is how a file for a name is called, which may have slashes in it.
func hashed(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "sha256-" + hex.EncodeToString(sum[:])
}

func readRecord(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// writeRecord puts a file in place at once, or not at all.
func writeRecord(path string, record any) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(path), strings.TrimPrefix(filepath.Base(path), "sha256-")+".new")
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
