// Package credential has the credentials of this machine for registries: the logins in
// docker's configuration files, and the answers of credential provider plugins. A plugin may
// ask for the pod's service account: it gets a token of the account then, and its answer is
// for pods of that account.
//
// Files are read anew for each pull, so that a login counts at once. A plugin is
// asked once, and its answer is kept for as long as it says, or for a short while if
// there was none. A broken file or plugin is logged when that begins and when it ends, and
// does not affect the others.
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
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/logonce"
	"berth/internal/runtime/keyring"
)

// maxFile is far more than a configuration of credentials needs.
const maxFile = 1 << 20

// Config configures a Node.
type Config struct {
	Files  []string // docker's configuration (config.json)
	Legacy []string // docker's configuration in its old format (.dockercfg)
	// Plugins may be nil.
	Plugins *Plugins
	// Accounts are needed if a plugin wants to know the service accounts of pods.
	Accounts Accounts
	Log      *slog.Logger
}

// Node is the keyring of this machine. All pods may use it, except for the answers of plugins
// for a service account.
type Node struct {
	Config

	mu     sync.Mutex
	broken map[string]*logonce.Streak // by file or plugin
}

// New returns a keyring. Files that are not there may come later.
func New(c Config) (*Node, error) {
	if c.Log == nil {
		return nil, errors.New("credential: a log is required")
	}
	if c.Accounts == nil && c.Plugins.wantAccounts() {
		return nil, errors.New("credential: a plugin wants to know service accounts, and there are none")
	}
	return &Node{Config: c, broken: map[string]*logonce.Streak{}}, nil
}

// Lookup returns the credentials for a repository, the most specific first, and the problems
// that kept it from finding more. p is the pod that pulls, or nil.
func (n *Node) Lookup(ctx context.Context, repository string, p *v1.Pod) ([]keyring.Credential, error) {
	var ring keyring.Ring
	var problems []error
	add := func(what string, ofAll bool, more keyring.Ring, err error) {
		if err != nil {
			err = fmt.Errorf("%s: %w", what, err)
			problems = append(problems, err)
		}
		if ofAll { // a problem of one pod is in its status
			n.logProblem(what, err)
		}
		ring = append(ring, more...)
	}
	for _, file := range n.Files {
		more, err := readFile(file, keyring.Parse)
		add("credentials in "+file, true, more, err)
	}
	for _, file := range n.Legacy {
		more, err := readFile(file, keyring.ParseLegacy)
		add("credentials in "+file, true, more, err)
	}
	if n.Plugins != nil {
		for _, plugin := range n.Plugins.list {
			if plugin.isFor(repository) {
				more, err := n.askFor(ctx, plugin, repository, p)
				add("credential provider "+plugin.Name, plugin.TokenAttributes == nil, more, err)
			}
		}
	}
	return ring.Lookup(repository), errors.Join(problems...)
}

// logProblem logs the problem of a file or plugin if it is new, and its end.
func (n *Node) logProblem(what string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.broken[what] == nil {
		n.broken[what] = &logonce.Streak{}
	}
	switch {
	case err != nil && n.broken[what].FailedAs(err.Error(), time.Now()):
		n.Log.Warn("credentials for registries can't be read; going on without them", "err", err)
	case err == nil && n.broken[what].Recovered():
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
