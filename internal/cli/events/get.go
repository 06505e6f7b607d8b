// Package events has the command 'get events', and writes the events of a pod for 'describe pod'.
package events

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
	"berth/internal/api/client"
	"berth/internal/cli/cmdutil"
	"berth/internal/cli/printers"
	"berth/internal/lib/table"
)

// Commands returns the commands of events.
func Commands() cmdutil.Commands {
	return cmdutil.Commands{Get: newGetEventsCommand()}
}

// getEvents is what the flags of 'get events' say.
type getEvents struct {
	filter client.EventFilter
	pod    string // as it was written
	output string
	watch  bool
	all    bool
}

func newGetEventsCommand() *cobra.Command {
	var g getEvents
	cmd := &cobra.Command{
		Use:     "events",
		Aliases: []string{"event", "ev"},
		Short:   "Show what happened to pods",
		Long: `Show what happened to pods, the newest last, of all namespaces unless one is given.

An event that happened again is shown once, with how often it did. The newest events are
kept, also of pods that are gone, and outlast a restart of the agent.`,
		Example: `  berth get events
  berth get events --for hello
  berth get events --for hello --watch
  berth get events -n web -o wide`,
		Args:              cmdutil.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := g.read(cmd); err != nil {
				return err
			}
			return g.run(cmd)
		},
	}
	cmd.Flags().StringVar(&g.pod, "for", "", "show the events of this pod only")
	cmdutil.AddOutputFlag(cmd, &g.output, printers.ObjectFormats())
	cmd.Flags().BoolVarP(&g.watch, "watch", "w", false, "go on and show what happens, until interrupted")
	cmd.Flags().BoolVarP(&g.all, "all-namespaces", "A", false, "show all namespaces, each with its name")
	cmdutil.AddNamespaceFlag(cmd, &g.filter.Namespace, "show this namespace only")
	_ = cmd.RegisterFlagCompletionFunc("for", cmdutil.CompletePods)
	return cmd
}

// read checks the command line.
func (g *getEvents) read(cmd *cobra.Command) (err error) {
	if g.all && g.filter.Namespace != "" {
		return cmdutil.UsageError(cmd, "--namespace and --all-namespaces exclude each other")
	}
	if err := cmdutil.CheckNamespace(cmd, g.filter.Namespace); err != nil {
		return err
	}
	if cmd.Flags().Changed("for") {
		g.filter.Pod, err = cmdutil.PodName(g.pod)
	}
	return err
}

func (g *getEvents) run(cmd *cobra.Command) error {
	printEvents, err := newEventPrinter(cmd.OutOrStdout(), g.output, g.all, g.watch, cmdutil.StatusPainter(cmd))
	if err != nil {
		return cmdutil.UsageError(cmd, err.Error())
	}
	c, err := cmdutil.NewClient(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	printAll := func(events []v1.Event) error {
		if len(events) == 0 {
			cmd.PrintErrln("No events found.")
		}
		sortByTime(events)
		return printEvents(events)
	}
	if !g.watch {
		list, err := c.Events(cmd.Context(), g.filter)
		if err != nil {
			return err
		}
		return printAll(list.Items)
	}
	var first []v1.Event
	synced := false
	err = c.WatchEvents(cmd.Context(), g.filter, func(e api.Event) error {
		switch {
		case e.Type == api.Synced:
			synced = true
			return printAll(first)
		case e.Event != nil && !synced:
			first = append(first, *e.Event)
		case e.Event != nil:
			return printEvents([]v1.Event{*e.Event})
		}
		return nil
	})
	if errors.Is(err, context.Canceled) {
		return nil // that is how a watch ends
	}
	return err
}

// sortByTime brings events in the order of time. Times are in seconds: within
// one, the order of the agent stays, which knows better.
func sortByTime(events []v1.Event) {
	slices.SortStableFunc(events, func(a, b v1.Event) int { return lastTime(&a).Compare(lastTime(&b)) })
}

// newEventPrinter returns what prints events in the way that -o asks for. It may
// be called again with more of them.
func newEventPrinter(w io.Writer, output string, namespaces, each bool, paint table.Painter) (func([]v1.Event) error, error) {
	o, err := printers.NewObjectPrinter(w, output, printers.ObjectFormats())
	switch {
	case err != nil:
		return nil, err
	case o == nil && output == "name":
		return func(events []v1.Event) error { return printEventNames(w, events) }, nil
	case o == nil:
		return (&eventTable{w: w, wide: output == "wide", namespaces: namespaces, paint: paint}).print, nil
	}
	return func(events []v1.Event) error {
		if !each {
			list := v1.EventList{Items: events}
			list.APIVersion, list.Kind = "v1", "EventList"
			return o.Print(list)
		}
		for _, e := range events {
			if err := o.Print(e); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func printEventNames(w io.Writer, events []v1.Event) error {
	for i := range events {
		if _, err := fmt.Fprintln(w, "event/"+events[i].Name); err != nil {
			return err
		}
	}
	return nil
}

// eventTable prints one row per event. The column of namespaces is there if it
// is asked for, or as soon as there is more than one.
type eventTable struct {
	w          io.Writer
	wide       bool
	namespaces bool
	paint      table.Painter

	seen string // the namespace of the first event
	rows *table.Writer
}

func (t *eventTable) print(events []v1.Event) error {
	for _, e := range events {
		if t.seen == "" {
			t.seen = e.InvolvedObject.Namespace
		}
		if e.InvolvedObject.Namespace != t.seen && !t.namespaces {
			t.namespaces, t.rows = true, nil // with another header
		}
	}
	if len(events) == 0 {
		return nil
	}
	if t.rows == nil {
		t.rows = table.Painted(t.w, t.paint)
		t.row("NAMESPACE", []string{"LAST SEEN", "TYPE", "REASON", "OBJECT", "SUBOBJECT", "SOURCE", "MESSAGE", "FIRST SEEN", "COUNT", "NAME"})
	}
	now := time.Now()
	for i := range events {
		e := &events[i]
		seen := lastSeen(e, now)
		if t.wide {
			seen = printers.Age(lastTime(e), now) // how often is in another column
		}
		t.row(e.InvolvedObject.Namespace, []string{
			seen, e.Type, e.Reason, strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name,
			e.InvolvedObject.FieldPath, eventSource(e), e.Message, printers.Age(firstTime(e), now), fmt.Sprint(max(e.Count, 1)), e.Name,
		})
	}
	return t.rows.Flush()
}

// row adds a row, of which it leaves out the cells that are not wanted.
func (t *eventTable) row(namespace string, cells []string) {
	if !t.wide {
		cells = append(slices.Clone(cells[:4]), cells[6])
	}
	if t.namespaces {
		cells = slices.Insert(cells, 0, namespace)
	}
	t.rows.Row(cells...)
}

// lastSeen says when an event happened, and how often.
func lastSeen(e *v1.Event, now time.Time) string {
	last := printers.Age(lastTime(e), now)
	if e.Count > 1 {
		last += fmt.Sprintf(" (x%d over %s)", e.Count, printers.Age(firstTime(e), now))
	}
	return last
}

func lastTime(e *v1.Event) time.Time {
	if e.LastTimestamp.IsZero() {
		return firstTime(e)
	}
	return e.LastTimestamp.Time
}

// firstTime is when an event happened first. Some events have only a time.
func firstTime(e *v1.Event) time.Time {
	if e.FirstTimestamp.IsZero() {
		return e.EventTime.Time
	}
	return e.FirstTimestamp.Time
}

func eventSource(e *v1.Event) string {
	if e.Source.Host == "" {
		return e.Source.Component
	}
	return e.Source.Component + ", " + e.Source.Host
}

func WriteDescription(b *strings.Builder, events []v1.Event, now time.Time) {
	if len(events) == 0 {
		printers.WriteOutline(b, []printers.Entry{printers.NewEntry("Events", "<none>")})
		return
	}
	sortByTime(events)
	b.WriteString("Events:\n")
	rows := table.New(b)
	for _, head := range [][]string{{"Type", "Reason", "Age", "From", "Message"}, {"----", "------", "----", "----", "-------"}} {
		rows.Row(append([]string{"  " + head[0]}, head[1:]...)...)
	}
	for i := range events {
		e := &events[i]
		rows.Row("  "+e.Type, e.Reason, lastSeen(e, now), eventSource(e), e.Message)
	}
	_ = rows.Flush() // a builder takes all
}
