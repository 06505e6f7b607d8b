package agent

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"berth/internal/cli/cmdutil"
	"berth/internal/config"
)

// loadConfig merges the flags of a command line and its --config file into a configuration.
func loadConfig(cmd *cobra.Command, flags *config.Flags) (*config.Config, error) {
	var file []byte
	if flags.ConfigFile != "" {
		var err error
		if file, err = os.ReadFile(flags.ConfigFile); err != nil {
			return nil, fmt.Errorf("read the configuration: %w", err)
		}
	}
	c, err := config.LoadOnHost(cmdutil.RootDir(cmd), *flags, file)
	if err != nil {
		return nil, err
	}
	c.Version, c.Given = cmd.Root().Version, givenFlags(cmd.Flags())
	return c, nil
}

// secretFlags are the flags whose values may hold credentials.
var secretFlags = []string{"manifest-url", "manifest-url-header"}

// givenFlags returns the flags that are on the command line, without the values of secretFlags.
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
