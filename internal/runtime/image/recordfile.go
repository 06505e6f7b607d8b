package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"berth/internal/lib/atomicfile"
	"berth/internal/lib/statefile"
	"berth/internal/runtime/keyring"
)

// unfinished is the suffix of files that were not renamed to their final name because of a
// crash.
const unfinished = ".new"

// intent is the record of a pull that begins, in the kubelet's format, with the reference of
// the image that had the name before.
type intent struct {
	kubelet.ImagePullIntent
	Before string `json:"before,omitempty"`
}

func readIntent(path string) (intent, error) {
	i, err := statefile.ReadRecord[intent](filepath.Split(path))
	if err == nil && i.Image == "" {
		err = fmt.Errorf("%s names no image", path)
	}
	return i, err
}

func writeIntent(path, image, before string) error {
	return writeFile(path, intent{kubelet.ImagePullIntent{TypeMeta: typeMeta("ImagePullIntent"), Image: image}, before})
}

func readPulled(path, ref string) (*kubelet.ImagePulledRecord, error) {
	record, err := statefile.ReadRecord[kubelet.ImagePulledRecord](filepath.Split(path))
	if err == nil && record.ImageRef != ref {
		err = fmt.Errorf("%s is of another image", path)
	}
	return &record, err
}

func writePulled(path string, record kubelet.ImagePulledRecord) error {
	record.TypeMeta, record.LastUpdatedTime = typeMeta("ImagePulledRecord"), metav1.Now()
	return writeFile(path, record)
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: kubelet.SchemeGroupVersion.String(), Kind: kind}
}

// fileOf returns the file name for an image. It is the same for all spellings of the image's
// name.
func fileOf(image string) string {
	if full, err := keyring.FullName(image); err == nil {
		image = full
	}
	return fileFor(image)
}

// fileFor returns the file name for a name that may have slashes in it.
func fileFor(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "sha256-" + hex.EncodeToString(sum[:])
}

// writeFile returns when the file is synced to the disk, so that a record survives a power
// cut.
func writeFile(path string, record any) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.ReplaceForGood(path, text, 0o600)
}

// remove removes a file. It is no error if the file does not exist.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
