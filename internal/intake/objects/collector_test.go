package objects

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestObjectsOfTwoSourcesArePutTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set []string
		var log strings.Builder
		g, err := NewCollector(CollectorConfig{
			Sources: []string{"file", "http"}, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Set: func(_ context.Context, objects []runtime.Object) {
				var names []string
				for _, o := range objects {
					if c, ok := o.(*v1.ConfigMap); ok {
						names = append(names, c.Name+"="+c.Data["key"])
					}
				}
				set = append(set, strings.Join(names, " "))
			},
		})
		must(t, err)
		want := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if fmt.Sprint(set) != fmt.Sprint(want) {
				t.Errorf("have %q, want %q", set, want)
			}
			set = nil
		}
		file, http := g.From("file"), g.From("http")

		// The first one waits for the other.
		done := false
		go func() {
			file(t.Context(), []runtime.Object{configMapOf("a", "1")})
			done = true
		}()
		want()
		if done {
			t.Error("it went on alone")
		}
		http(t.Context(), []runtime.Object{configMapOf("b", "1")})
		want("a=1 b=1")
		if !done {
			t.Error("it waits for ever")
		}
		// From then on nothing waits.
		http(t.Context(), nil)
		file(t.Context(), []runtime.Object{configMapOf("a", "2")})
		want("a=1", "a=2")

		// What both have comes from the first, and that is said once.
		http(t.Context(), []runtime.Object{configMapOf("a", "3")})
		http(t.Context(), []runtime.Object{configMapOf("a", "4"), configMapOf("b", "4")})
		want("a=2", "a=2 b=4")
		file(t.Context(), nil)
		want("a=4 b=4")
		if said := log.String(); strings.Count(said, "is in two sources") != 1 || strings.Count(said, "no longer in two sources") != 1 {
			t.Errorf("said was %s", said)
		}
	})
}

func TestASourceThatIsStoppedDoesNotWait(t *testing.T) {
	g, err := NewCollector(CollectorConfig{
		Sources: []string{"file", "http"}, Log: slog.New(slog.DiscardHandler),
		Set: func(context.Context, []runtime.Object) { t.Error("it is not complete") },
	})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.From("file")(ctx, nil)
	if _, err := NewCollector(CollectorConfig{}); err == nil {
		t.Error("accepted")
	}
}
