package clitest

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"berth/internal/cli/cmdutil"
	"berth/internal/lib/leaktest"
)

// Main runs the tests of a package, and fails if they leave goroutines behind.
func Main(m *testing.M) {
	// It runs for a while after a connection is closed.
	leaktest.Main(m, "github.com/moby/spdystream.(*Connection).shutdown")
}

// Process is a command that runs until it is interrupted.
type Process struct {
	t         *testing.T
	Out       *bufio.Reader
	Stderr    bytes.Buffer // to be read after WantEnd
	Interrupt context.CancelFunc
	Code      chan int
}

// WantLines reads lines from the output, and compares their words with those of lines.
func (c *Process) WantLines(lines ...string) {
	c.t.Helper()
	for _, want := range lines {
		got, err := c.Out.ReadString('\n')
		if got := strings.Join(strings.Fields(got), " "); got != want {
			c.t.Fatalf("got %q (%v), want %q", got, err, want)
		}
	}
}

// WantEnd waits for the end of the command, which must print no more.
func (c *Process) WantEnd(code int, stderr string) {
	c.t.Helper()
	if rest, _ := io.ReadAll(c.Out); len(rest) > 0 {
		c.t.Errorf("got %q, want no more", rest)
	}
	if got := <-c.Code; got != code || c.Stderr.String() != stderr {
		c.t.Errorf("got code %d, stderr %q, want %d, %q", got, c.Stderr.String(), code, stderr)
	}
}

// Result is what a command did.
type Result struct {
	Code        int
	Out, Stderr string
}

// Execute runs a command to its end, and returns its exit code.
func Execute(ctx context.Context, root func() *cobra.Command, out, stderr io.Writer, args ...string) int {
	cmd := root()
	cmd.SetOut(out)
	cmd.SetErr(stderr)
	return cmdutil.Execute(ctx, cmd, stderr, args...)
}

// Run runs a command to its end, with a text on stdin.
func Run(t *testing.T, root func() *cobra.Command, stdin string, args ...string) Result {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd := root()
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&stderr)
	code := cmdutil.Execute(t.Context(), cmd, &stderr, args...)
	return Result{Code: code, Out: out.String(), Stderr: stderr.String()}
}
