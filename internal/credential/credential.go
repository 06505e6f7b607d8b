// Package credential has what this machine can show to registries: the logins in
// docker's configuration files, and what credential provider plugins answer.
//
// Files are read anew for each pull, so that a login counts at once. A plugin is
// asked once, and its answer is kept for as long as it says. What is broken is told
// to the log when that begins and when it ends, and stands in nobody's way.
package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"berth/internal/keyring"
)

// maxFile is far more than a configuration of credentials needs.
const maxFile = 1 << 20

// Config is what a Node is made of.
type Config struct {
	Files  []string // docker's configuration, as it is today
	Legacy []string // and as it was
	// Plugins may be nil.
	Plugins *Plugins
	Log     *slog.Logger
}

// Node is the keyring of this machine. All of its pods may use it.
type Node struct {
	Config

	mu     sync.Mutex
	broken map[string]string // what the log says of a file or a plugin
}

// New returns a keyring. Files that are not there may come later.
func New(c Config) (*Node, error) {
	if c.Log == nil {
		return nil, errors.New("credential: a log is required")
	}
	return &Node{Config: c, broken: map[string]string{}}, nil
}

// Lookup returns what can be shown for a repository, the most specific first, and
// what kept it from finding more.
func (n *Node) Lookup(ctx context.Context, repository string) ([]keyring.Credential, error) {
	var ring keyring.Ring
	var problems []error
	add := func(what string, more keyring.Ring, err error) {
		if err != nil {
			err = fmt.Errorf("%s: %w", what, err)
			problems = append(problems, err)
		}
		n.note(what, err)
		ring = append(ring, more...)
	}
	for _, file := range n.Files {
		more, err := readFile(file, keyring.Parse)
		add("credentials in "+file, more, err)
	}
	for _, file := range n.Legacy {
		more, err := readFile(file, keyring.ParseLegacy)
		add("credentials in "+file, more, err)
	}
	if n.Plugins != nil {
		for _, p := range n.Plugins.list {
			if p.isFor(repository) {
				more, err := p.ask(ctx, repository)
				add("credential provider "+p.Name, more, err)
			}
		}
	}
	return ring.Lookup(repository), errors.Join(problems...)
}

// note tells the log of a problem that is new, and of one that is gone.
func (n *Node) note(what string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before, failing := n.broken[what]
	switch {
	case err != nil && before != err.Error():
		n.broken[what] = err.Error()
		n.Log.Warn("credentials for registries can't be read; going on without them", "err", err)
	case err == nil && failing:
		delete(n.broken, what)
		n.Log.Info("credentials for registries can be read again", "from", what)
	}
}

// readFile reads a file that need not be there.
func readFile(path string, parse func([]byte) (keyring.Ring, error)) (keyring.Ring, error) {
	text, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parse(text)
}

// readBounded reads a plain file of a sane size.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // a pipe would never end
		return nil, errors.New("not a file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("larger than %d bytes", maxFile)
	}
	return text, err
}
