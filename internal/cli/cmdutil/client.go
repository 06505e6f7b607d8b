package cmdutil

import (
	"context"

	"github.com/spf13/cobra"

	"berth/internal/api/client"
)

// NewClient returns a client of the agent of --root-dir.
func NewClient(cmd *cobra.Command) (*client.Client, error) { return client.New(RootDir(cmd)) }

// WithClient calls do with a client of the agent of --root-dir, and closes it.
func WithClient(cmd *cobra.Command, do func(context.Context, *client.Client) error) error {
	c, err := NewClient(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(cmd.Context(), c)
}
