package execute

import (
	"reflect"
	"testing"
	"time"

	"berth/internal/core/status"
)

func TestTheTerminationOfAPodOnlyMovesOn(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	evicted, deadline := status.Termination{Reason: "Evicted"}, status.Termination{Reason: "DeadlineExceeded"}
	for _, c := range []struct {
		name  string
		begin termination
		on    []terminationEvent
		want  termination
		shown *status.TerminationStep
	}{
		{
			name: "the first reason stays",
			on:   []terminationEvent{terminationDecided{evicted}, terminationDecided{deadline}},
			want: termination{reason: &evicted},
		},
		{
			name:  "a step begins the stop",
			on:    []terminationEvent{stepBegan{"stopping containers", at(1)}},
			want:  termination{phase: stopping, step: "stopping containers", since: at(1)},
			shown: &status.TerminationStep{Step: "stopping containers", Since: at(1)},
		},
		{
			name:  "a step that is repeated began when it first did",
			on:    []terminationEvent{stepBegan{"unmounting volumes", at(1)}, stepHeldUp{"busy"}, stepBegan{"unmounting volumes", at(2)}},
			want:  termination{phase: stopping, step: "unmounting volumes", since: at(1), obstacle: "busy"},
			shown: &status.TerminationStep{Step: "unmounting volumes: busy", Since: at(1)},
		},
		{
			name:  "what held up a step is forgotten with the next one",
			on:    []terminationEvent{stepBegan{"unmounting volumes", at(1)}, stepHeldUp{"busy"}, stepBegan{"removing the cgroup", at(2)}},
			want:  termination{phase: stopping, step: "removing the cgroup", since: at(2)},
			shown: &status.TerminationStep{Step: "removing the cgroup", Since: at(2)},
		},
		{
			name: "nothing is held up before a step began",
			on:   []terminationEvent{stepHeldUp{"busy"}},
			want: termination{},
		},
		{
			name:  "a stopped pod shows no step, and keeps its reason",
			begin: termination{reason: &evicted, phase: stopping, step: "removing the cgroup", since: at(1)},
			on:    []terminationEvent{podStopped{}},
			want:  termination{reason: &evicted, phase: stopped},
		},
		{
			name: "a pod that is not stopped is not released",
			on:   []terminationEvent{stepBegan{"stopping containers", at(1)}, upstreamInformed{}},
			want: termination{phase: stopping, step: "stopping containers", since: at(1)}, shown: &status.TerminationStep{Step: "stopping containers", Since: at(1)},
		},
		{
			name:  "a stopped pod is released",
			begin: termination{phase: stopped},
			on:    []terminationEvent{upstreamInformed{}},
			want:  termination{phase: released},
		},
		{
			name:  "a stop that is done again undoes nothing",
			begin: termination{phase: released},
			on:    []terminationEvent{stepBegan{"unmounting volumes", at(3)}, podStopped{}},
			want:  termination{phase: released},
		},
		{
			name:  "a cleanup is shown, and changes no phase",
			begin: termination{phase: stopped},
			on:    []terminationEvent{stepBegan{"removing what is left", at(3)}},
			want:  termination{phase: stopped, step: "removing what is left", since: at(3)},
			shown: &status.TerminationStep{Step: "removing what is left", Since: at(3)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.begin
			for _, e := range c.on {
				got = got.on(e)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if shown := got.progress(); !reflect.DeepEqual(shown, c.shown) {
				t.Errorf("shown as %+v, want %+v", shown, c.shown)
			}
		})
	}
}
