package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"berth/internal/lib/atomicfile"
	"berth/internal/lib/salvage"
)

// The settings of the last run stay in the root directory, so that `berth down`
// knows without flags what there is to stop. Secrets are not among them: it asks
// for no manifests.

func settingsPath(root string) string { return FindStateFile(root, settingsFile) }

const settingsFile = "settings.json"

// Save writes the settings of a run to its root directory.
func (c *Config) Save() error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = atomicfile.Replace(c.StatePath(settingsFile), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write down the settings: %w", err)
	}
	return nil
}

// LoadSaved reads the settings of the last run in root. It returns nil if no agent ever ran there.
// Another version of berth may have written them: a setting that can't be read gets its default, and
// Warnings names it. Settings that came with a copy of another root are refused: they would lead to the
// pods of that root.
func LoadSaved(root string) (*Config, error) {
	text, err := os.ReadFile(settingsPath(root))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings of the last run: %w", err)
	}
	if !json.Valid(text) { // no statefile.Load: without its flags, 'berth down' might leave pods behind
		return nil, fmt.Errorf("the settings of the last run in %s are damaged: run 'berth run' once more with the flags that it had, which writes them anew", settingsPath(root))
	}
	var flags Flags
	flags.AddTo(pflag.NewFlagSet("", pflag.ContinueOnError)) // for their defaults
	c, err := LoadOnHost(root, flags, nil)
	if err != nil {
		return nil, fmt.Errorf("read the settings of the last run: %w", err)
	}
	unread := salvage.Fields(text, c)
	if !sameDir(root, c.RootDir) {
		return nil, fmt.Errorf("%s is of an agent that ran on %s, and this is %s: if it was moved or copied from there, remove that file", settingsPath(root), c.RootDir, root)
	}
	c.RootDir, c.Warnings = root, nil
	if unread != nil {
		c.Warnings = []string{fmt.Sprintf("some settings of the last run can't be read from %s, and are taken to be the usual ones: %v", settingsPath(root), unread)}
	}
	return c, nil
}

// sameDir reports whether two paths lead to the same directory.
func sameDir(a, b string) bool {
	is, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(is, other)
}
