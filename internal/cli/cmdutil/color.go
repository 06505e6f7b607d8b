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

// addColorFlag adds --color to all commands.
func addColorFlag(root *cobra.Command) {
	mode := colorMode("auto")
	root.PersistentFlags().Var(&mode, flagColor, "when to use colour: "+strings.Join(colorModes, ", ")+"; auto is on a terminal, unless NO_COLOR is set")
	_ = root.RegisterFlagCompletionFunc(flagColor, CompleteWords(colorModes...))
}

// Colored reports whether the output of cmd may have colours.
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

// TerminalOf returns the file descriptor of the terminal that cmd prints to, if its output is one.
func TerminalOf(cmd *cobra.Command) (int, bool) {
	file, ok := cmd.OutOrStdout().(*os.File)
	if !ok {
		return 0, false
	}
	fd := int(file.Fd())
	return fd, term.IsTerminal(fd)
}

// Escape sequences of colours.
const (
	Red        = "\x1b[31m"
	Green      = "\x1b[32m"
	Yellow     = "\x1b[33m"
	Cyan       = "\x1b[36m"
	ResetColor = "\x1b[0m"
)

// InColor returns a text in a colour. An empty colour is none.
func InColor(color, text string) string {
	if color == "" {
		return text
	}
	return color + text + ResetColor
}

// StatusPainter returns a painter of the columns STATUS and TYPE, and nil if the output of cmd has no colours.
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

// statusColor returns green for a status that is good, yellow for one that passes by itself, and red for a failure.
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
		return Yellow // Init:1/2
	}
	return Red
}
