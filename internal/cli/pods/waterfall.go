package pods

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"berth/internal/api"
	"berth/internal/api/client"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
	"berth/internal/lib/pod"
)

func newWaterfallCommand() *cobra.Command {
	var (
		namespace string
		output    string
	)
	cmd := &cobra.Command{
		Use:   "waterfall POD",
		Short: "Show where the time went when a pod was started",
		Long: `Show the phases of the start of a pod, each as a bar, from the moment at which berth heard of it until it was
ready. A phase without an end goes on.

It is the first start of a pod that is shown, not that of containers which are restarted later. It is kept in memory: of
pods that were up before the agent was started, nothing is known.

POD is the full name of a pod, or its name in the manifest, without the name of the node.`,
		Example: `  berth waterfall hello
  berth waterfall hello -o json`,
		Args:              cmdutil.OnePod,
		ValidArgsFunction: cmdutil.CompletePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := cmdutil.PodFilter(cmd, namespace, args)
			if err != nil {
				return err
			}
			documents, err := cmdutil.DocumentPrinter(cmd, output)
			if err != nil {
				return err
			}
			return showWaterfall(cmd, filter, documents)
		},
	}
	cmdutil.AddDocumentFlag(cmd, &output)
	cmdutil.AddNamespaceFlag(cmd, &namespace, "namespace of the pod; not needed if only one has that name")
	return cmd
}

func showWaterfall(cmd *cobra.Command, f client.Filter, documents *printers.ObjectPrinter) error {
	c, err := cmdutil.NewClient(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.Pods(cmd.Context(), f)
	if err != nil {
		return err
	}
	for i := range list.Pods.Items {
		p := &list.Pods.Items[i]
		w, err := c.Waterfall(cmd.Context(), p.Namespace, p.Name)
		if err != nil {
			return err
		}
		if documents != nil {
			if err := documents.Print(w); err != nil {
				return err
			}
			continue
		}
		if len(list.Pods.Items) > 1 {
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s:\n", pod.Ref(p))
		}
		text := drawWaterfall(w, terminalWidth(cmd), cmdutil.Colored(cmd), time.Now())
		if text == "" {
			cmd.PrintErrf("Pod %s has not begun to start.\n", p.Name)
			continue
		}
		if _, err := fmt.Fprint(cmd.OutOrStdout(), text); err != nil {
			return err
		}
	}
	return nil
}

const (
	defaultWidth = 80 // of an output that is no terminal
	minBarWidth  = 10
)

// terminalWidth returns the width of the terminal, of $COLUMNS, or defaultWidth.
func terminalWidth(cmd *cobra.Command) int {
	if fd, ok := cmdutil.TerminalOf(cmd); ok {
		if width, _, err := term.GetSize(fd); err == nil && width > 0 {
			return width
		}
	}
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		return width
	}
	return defaultWidth
}

// bar is a phase of a waterfall. Its start is relative to the time at which the agent saw the pod.
type bar struct {
	name        string
	start, took time.Duration
	running     bool
}

// bars returns the phases of a waterfall, and the end of the last.
func bars(w *api.Waterfall, now time.Time) (out []bar, total time.Duration) {
	first := w.Seen
	for _, p := range w.Phases {
		if first.IsZero() || p.Start.Before(first) {
			first = p.Start
		}
	}
	for _, p := range w.Phases {
		b := bar{name: p.Name, start: p.Start.Sub(first), running: p.End == nil}
		if p.Container != "" {
			b.name += " " + p.Container
		}
		end := now
		if p.End != nil {
			end = *p.End
		}
		b.took = max(end.Sub(p.Start), 0)
		total = max(total, b.start+b.took)
		out = append(out, b)
	}
	return out, total
}

// drawWaterfall draws a bar for each phase. The scale is such that the longest line has the given width.
func drawWaterfall(w *api.Waterfall, width int, colors bool, now time.Time) string {
	bars, total := bars(w, now)
	if len(bars) == 0 {
		return ""
	}
	names := len("PHASE")
	for _, b := range bars {
		names = max(names, utf8.RuneCountInString(b.name))
	}
	const numbers = 2*10 + 3*2 // two columns of times, and the space around them
	room := max(width-names-numbers, minBarWidth)
	scale := float64(room) / float64(max(total, 1))

	var text strings.Builder
	fmt.Fprintf(&text, "%-*s  %10s  %10s\n", names, "PHASE", "START", "TOOK")
	for _, b := range bars {
		took := formatDuration(b.took)
		if b.running {
			took += "+"
		}
		before := min(int(float64(b.start)*scale), room-1)
		length := max(min(int(float64(b.took)*scale+0.5), room-before), 1)
		drawn := strings.Repeat("█", length)
		if colors {
			drawn = cmdutil.InColor(cmdutil.Cyan, drawn)
		}
		fmt.Fprintf(&text, "%-*s  %10s  %10s  %s%s\n", names, b.name, "+"+formatDuration(b.start), took, strings.Repeat(" ", before), drawn)
	}
	fmt.Fprintf(&text, "%-*s  %10s  %10s\n", names, "total", "", formatDuration(total))
	return text.String()
}

// formatDuration formats a duration in milliseconds, or hundredths of a second, or seconds.
func formatDuration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Round(time.Millisecond).Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.2fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
