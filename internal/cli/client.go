package cli

import (
	"context"

	"github.com/spf13/cobra"

	"berth/internal/api/client"
)

func newClient(cmd *cobra.Command) (*client.Client, error) { return client.New(rootDir(cmd)) }

// withClient does something with a client, and closes it.
func withClient(cmd *cobra.Command, do func(context.Context, *client.Client) error) error {
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(cmd.Context(), c)
}
