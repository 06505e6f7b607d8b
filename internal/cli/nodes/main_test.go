package nodes

import (
	"testing"

	"github.com/spf13/cobra"

	"berth/internal/cli/clitest"
	"berth/internal/cli/cmdutil"
)

func TestMain(m *testing.M) { clitest.Main(m) }

func root() *cobra.Command { return cmdutil.NewRoot("client-version", Commands()) }
