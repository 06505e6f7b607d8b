package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"berth/internal/config"
	"berth/internal/lib/atomicfile"
	"berth/internal/lib/salvage"
)

// loadConfig reads what a command line and its --config file say.
func loadConfig(cmd *cobra.Command, flags *config.Flags) (*config.Config, error) {
	var file []byte
	if flags.ConfigFile != "" {
		var err error
		if file, err = os.ReadFile(flags.ConfigFile); err != nil {
			return nil, fmt.Errorf("read the configuration: %w", err)
		}
	}
	c, err := configHere(rootDir(cmd), *flags, file)
	if err != nil {
		return nil, err
	}
	c.Given = givenFlags(cmd.Flags())
	return c, nil
}

// configHere is the configuration of an agent on this machine.
func configHere(root string, flags config.Flags, file []byte) (*config.Config, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find out the machine's name: %w", err)
	}
	workDir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find out the current folder: %w", err)
	}
	return config.Load(root, flags, file, config.Machine{Hostname: hostname, Processors: runtime.NumCPU(), WorkDir: workDir})
}

// secretFlags may hold what is nobody's business.
var secretFlags = []string{"manifest-url", "manifest-url-header"}

// givenFlags are those of a command line, as others may read them.
func givenFlags(flags *pflag.FlagSet) map[string]string {
	out := map[string]string{}
	flags.Visit(func(f *pflag.Flag) {
		out[f.Name] = f.Value.String()
		if slices.Contains(secretFlags, f.Name) {
			out[f.Name] = "(not shown)"
		}
	})
	return out
}

// The settings of the last run stay in the root directory, so that `berth down`
// knows without being told what there is to stop. Secrets are not among them: it asks
// for no manifests.

func settingsPath(root string) string { return filepath.Join(root, "settings.json") }

func saveSettings(c *config.Config) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = atomicfile.Replace(settingsPath(c.RootDir), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write down the settings: %w", err)
	}
	return nil
}

// savedSettings returns nil if no agent ever ran in root. Another version of berth may have
// written them: a setting that can't be read is the usual one, and Warnings names it. Settings
// that came with a copy of another root are that one's, and would lead to its pods.
func savedSettings(root string) (*config.Config, error) {
	text, err := os.ReadFile(settingsPath(root))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings of the last run: %w", err)
	}
	if !json.Valid(text) {
		return nil, fmt.Errorf("the settings of the last run in %s are damaged: run 'berth run' once more with the flags that it had, which writes them anew", settingsPath(root))
	}
	var flags config.Flags
	flags.AddTo(pflag.NewFlagSet("", pflag.ContinueOnError)) // for their defaults
	c, err := configHere(root, flags, nil)
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

// sameDir tells whether two paths lead to the same directory.
func sameDir(a, b string) bool {
	is, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(is, other)
}
