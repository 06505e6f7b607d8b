package cert

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/util/certificate"
	"k8s.io/klog/v2"
)

// keptPairs is how many pairs stay on disk: the one in use, and the one before it.
const keptPairs = 2

// store keeps the pairs of one name in the certificate folder, each in a file with the date in its
// name; the link NAME-current.pem leads to the newest. It calls updated for each new pair.
type store struct {
	certificate.FileStore
	dir, name string
	fallback  *tls.Certificate // while the folder has no valid pair; nil: none
	report    *report
	updated   func(*tls.Certificate)

	mu     sync.Mutex // held while a pair is written
	closed bool
}

var errClosed = errors.New("the agent is about to end")

func newStore(dir, name string, fallback *tls.Certificate, r *report, updated func(*tls.Certificate)) (*store, error) {
	files, err := certificate.NewFileStoreWithLogger(klog.Logger{}, name, dir, dir, "", "")
	if err != nil {
		return nil, fmt.Errorf("open the %s in %s: %w", r.what, dir, err)
	}
	return &store{FileStore: files, dir: dir, name: name, fallback: fallback, report: r, updated: updated}, nil
}

// Current returns the newest pair. A pair that can't be read counts as missing: the certificate
// manager then requests a new one.
func (s *store) Current() (*tls.Certificate, error) {
	pair, err := s.FileStore.Current()
	if s.fallback != nil && expired(pair, time.Now()) {
		return s.fallback, nil
	}
	if none := (*certificate.NoCertKeyError)(nil); err == nil || errors.As(err, &none) {
		return pair, err
	}
	s.report.failed(err)
	return nil, new(certificate.NoCertKeyError(err.Error()))
}

// Update writes a new pair, and removes old ones.
func (s *store) Update(cert, key []byte) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	s.awaitName()
	pair, err := s.FileStore.Update(cert, key)
	if err != nil {
		return nil, err
	}
	s.report.got(pair.Leaf)
	s.updated(pair)
	if err := s.prune(filepath.Base(pairFile(s.CurrentPath()))); err != nil {
		s.report.log.Warn("an old "+s.report.what+" stays", "dir", s.dir, "err", err)
	}
	return pair, nil
}

// close waits until no pair is being written. After that nothing is written or logged.
func (s *store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.report.close()
}

// awaitName waits until the newest pair is a second old: two pairs of the same second would have
// the same file name, and the one in use would be overwritten.
func (s *store) awaitName() {
	info, err := os.Stat(s.CurrentPath())
	if err != nil {
		return
	}
	if age := time.Since(info.ModTime()); age >= 0 && age < time.Second {
		time.Sleep(time.Second - age)
	}
}

// pairFile returns the file that the link at path leads to.
func pairFile(path string) string {
	target, err := os.Readlink(path)
	if err != nil {
		return path
	}
	return target
}

// prune removes old pairs: keptPairs stay, among them the pair in use.
func (s *store) prune(inUse string) error {
	entries, err := os.ReadDir(s.dir) // sorted, and the date is in the name
	if err != nil {
		return err
	}
	var old []string
	for _, e := range entries {
		if ok, _ := filepath.Match(s.name+"-[0-9]*.pem", e.Name()); ok && e.Name() != inUse {
			old = append(old, e.Name())
		}
	}
	for _, name := range old[:max(0, len(old)-keptPairs+1)] {
		err = errors.Join(err, os.Remove(filepath.Join(s.dir, name)))
	}
	return err
}
