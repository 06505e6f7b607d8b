// Package events has the command 'get events', and writes the events of a pod for 'describe pod'.
package events

import (
	"context"
	"fmt"
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

// getFlags are the flags of 'get events'.
type getFlags struct {
	namespace cmdutil.NamespaceFlags
	pod       string // --for
	output    string
	watch     bool
}

func newGetEventsCommand() *cobra.Command {
	var flags getFlags
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
			return get(cmd, &flags)
		},
	}
	cmd.Flags().StringVar(&flags.pod, "for", "", "show the events of this pod only")
	cmdutil.AddOutputFlag(cmd, &flags.output)
	cmd.Flags().BoolVarP(&flags.watch, "watch", "w", false, "go on and show what happens, until interrupted")
	flags.namespace.AddTo(cmd)
	_ = cmd.RegisterFlagCompletionFunc("for", cmdutil.CompletePods)
	return cmd
}

// filter returns the events that the flags choose.
func (f *getFlags) filter(cmd *cobra.Command) (client.EventFilter, error) {
	var pod []string
	if cmd.Flags().Changed("for") {
		pod = []string{f.pod}
	}
	of, err := f.namespace.Filter(cmd, pod)
	return client.EventFilter{Namespace: of.Namespace, Pod: of.Name}, err
}

func get(cmd *cobra.Command, flags *getFlags) error {
	filter, err := flags.filter(cmd)
	if err != nil {
		return err
	}
	o := printers.Options{Output: flags.output, Namespaces: flags.namespace.All, Each: flags.watch}
	if !flags.watch {
		return cmdutil.Get(cmd, kind(), o, func(ctx context.Context, c *client.Client) ([]v1.Event, error) {
			list, err := c.Events(ctx, filter)
			if err != nil {
				return nil, err
			}
			return list.Items, nil
		})
	}
	g, err := cmdutil.NewGetter(cmd, kind(), o)
	if err != nil {
		return err
	}
	return cmdutil.WithClient(cmd, func(ctx context.Context, c *client.Client) error {
		return cmdutil.UntilInterrupted(c.WatchEvents(ctx, filter, func(e api.Event) error {
			switch {
			case e.Type == api.Synced:
				return g.Synced()
			case e.Event != nil:
				return g.Watched(*e.Event)
			}
			return nil
		}))
	})
}

// kind says how events are printed. A wide table has how often an event happened in a column of its own.
func kind() printers.Kind[v1.Event] {
	return printers.Kind[v1.Event]{
		Plural: "events",
		Columns: []printers.Column{
			{Head: "LAST SEEN", In: printers.Narrow},
			{Head: "LAST SEEN", In: printers.Wide},
			{Head: "TYPE"},
			{Head: "REASON"},
			{Head: "OBJECT"},
			{Head: "SUBOBJECT", In: printers.Wide},
			{Head: "SOURCE", In: printers.Wide},
			{Head: "MESSAGE"},
			{Head: "FIRST SEEN", In: printers.Wide},
			{Head: "COUNT", In: printers.Wide},
			{Head: "NAME", In: printers.Wide},
		},
		Rows: func(e *v1.Event, now time.Time) [][]string {
			return [][]string{{
				lastSeen(e, now), printers.Age(lastTime(e), now), e.Type, e.Reason, strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name,
				e.InvolvedObject.FieldPath, eventSource(e), e.Message,
				printers.Age(firstTime(e), now), fmt.Sprint(max(e.Count, 1)), e.Name,
			}}
		},
		Names:     func(e *v1.Event) []string { return []string{"event/" + e.Name} },
		Namespace: func(e *v1.Event) string { return e.InvolvedObject.Namespace },
		Document:  func(e *v1.Event) any { return e },
		List: func(events []v1.Event) any {
			list := v1.EventList{Items: events}
			list.APIVersion, list.Kind = "v1", "EventList"
			return list
		},
		Sort: sortByTime,
	}
}

// sortByTime sorts events by the time at which they were seen last. Times have seconds only: within
// one, the order of the agent stays, which is more precise.
func sortByTime(events []v1.Event) {
	slices.SortStableFunc(events, func(a, b v1.Event) int { return lastTime(&a).Compare(lastTime(&b)) })
}

// lastSeen returns how long ago an event happened last, and how often it did.
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

// firstTime returns when an event happened first. Events of events.k8s.io have EventTime instead.
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

// WriteDescription writes the events of a pod as 'describe pod' shows them.
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
	_ = rows.Flush() // a strings.Builder returns no errors
}
