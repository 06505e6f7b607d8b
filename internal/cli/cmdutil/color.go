package cmdutil

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"berth/internal/lib/table"
)

// colorMode is the value of --color.
type colorMode string

var colorModes = []string{"auto", "always", "never"}

func (m *colorMode) String() string { return string(*m) }
func (*colorMode) Type() string     { return "when" }

// Set implements pflag.Value.
func (m *colorMode) Set(text string) error {
	if !slices.Contains(colorModes, text) {
		return fmt.Errorf("it can be any of %s", strings.Join(colorModes, ", "))
	}
	*m = colorMode(text)
	return nil
}

const flagColor = "color"

// addColorFlag gives all commands their --color.
func addColorFlag(root *cobra.Command) {
	mode := colorMode("auto")
	root.PersistentFlags().Var(&mode, flagColor, "when to use colour: "+strings.Join(colorModes, ", ")+"; auto is on a terminal, unless NO_COLOR is set")
	_ = root.RegisterFlagCompletionFunc(flagColor, CompleteWords(colorModes...))
}

// Colored tells whether what cmd prints may have colours.
func Colored(cmd *cobra.Command) bool {
	flag := cmd.Flag(flagColor)
	if flag == nil {
		return false
	}
	switch flag.Value.String() {
	case "always":
		return true
	case "never":
		return false
	}
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, isTerminal := TerminalOf(cmd)
	return isTerminal
}

// TerminalOf is the terminal that cmd prints to, if it is one.
func TerminalOf(cmd *cobra.Command) (int, bool) {
	file, ok := cmd.OutOrStdout().(*os.File)
	if !ok {
		return 0, false
	}
	fd := int(file.Fd())
	return fd, term.IsTerminal(fd)
}

// The colours that are used, and what ends them.
const (
	Red        = "\x1b[31m"
	Green      = "\x1b[32m"
	Yellow     = "\x1b[33m"
	Cyan       = "\x1b[36m"
	ResetColor = "\x1b[0m"
)

// InColor is a text in a colour, if there is one.
func InColor(color, text string) string {
	if color == "" {
		return text
	}
	return color + text + ResetColor
}

// StatusPainter colours the column with the state of things. It is nil where
// colours are not wanted.
func StatusPainter(cmd *cobra.Command) table.Painter {
	if !Colored(cmd) {
		return nil
	}
	return func(head, cell string) string {
		switch head {
		case "STATUS":
			return InColor(statusColor(cell), cell)
		case "TYPE":
			if cell == "Warning" {
				return InColor(Yellow, cell)
			}
		}
		return cell
	}
}

// statusColor is green for what is as it should be, yellow for what is on its
// way, and red for what is neither.
func statusColor(status string) string {
	_, rest, initializing := strings.Cut(status, "Init:")
	switch {
	case status == "STATUS":
		return "" // the head of the column
	case status == "Running", status == "Completed", status == "Succeeded", status == "Ready", status == "ok":
		return Green
	case status == "Pending", status == "ContainerCreating", status == "PodInitializing", status == "Terminating",
		status == "NotReady", status == "Unknown", status == "Deleted", status == "warn", strings.HasSuffix(status, ",SchedulingDisabled"):
		return Yellow
	case initializing && strings.Contains(rest, "/"):
		return Yellow // so many are done
	}
	return Red
}
