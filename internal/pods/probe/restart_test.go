package probe

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

func TestWhatIsKnownOutlivesTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Given a ready container, one that was given up, and one that is gone soon
		path := filepath.Join(t.TempDir(), "state", "probes.json")
		first := newWorld(t, path)
		first.start()
		well := web("well", asking("start"), asking("live"), asking("ready"))
		dead := web("dead", nil, asking("live", thresholds(1, 1), func(p *v1.Probe) { p.TerminationGracePeriodSeconds = new(int64(5)) }), nil)
		young := web("young", nil, nil, asking("ready"))
		gone := web("gone", nil, nil, asking("ready"))
		first.answer("d", "live", bad)
		first.answer("y", "ready", bad)
		first.watch(well, "w")
		first.watch(dead, "d")
		first.watch(young, "y")
		first.watch(gone, "g")
		born := time.Now()
		first.pass(1500 * time.Millisecond) // a second after the last change, it is on disk
		kept, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		first.stopRun()

		// When the agent was killed and comes again
		if err := os.WriteFile(path, kept, 0o600); err != nil {
			t.Fatal(err)
		}
		second := newWorld(t, path)
		const deadText = "started=- ready=- dead=liveness probe failed: no good grace=5"

		// Then all results are known even before Watch was called
		second.expectHealth("w", "started=true ready=true dead=")
		second.expectHealth("d", deadText)
		second.expectHealth("y", "started=- ready=false dead=")
		second.start()
		second.Watch(well, has(runs("w", born)))
		second.Watch(dead, has(runs("d", born)))
		second.Watch(young, has(runs("y", born)))
		second.Watch(gone, has())
		second.expectHealth("w", "started=true ready=true dead=")
		second.expectHealth("d", deadText)
		second.expectHealth("y", "started=- ready=false dead=")
		second.expectHealth("g", "started=- ready=- dead=")
		second.pass(10 * time.Second)

		// And no startup probe runs, nor a probe of the dead container
		var asked []string
		for _, c := range second.calls {
			_, what, _ := strings.Cut(c, " ")
			asked = append(asked, what)
		}
		slices.Sort(asked)
		if want := []string{"w live", "w ready", "y ready"}; !slices.Equal(asked, want) {
			t.Errorf("asked: %q, want %q", asked, want)
		}
		// And only new results are sent
		if len(second.results) != 1 || !strings.HasSuffix(second.results[0], " y readiness true") {
			t.Errorf("results: %q", second.results)
		}
		second.stopRun()
		if kept, err = os.ReadFile(path); err != nil || strings.Contains(string(kept), `"g"`) {
			t.Errorf("what is gone is kept: %s (%v)", kept, err)
		}
	})
}

func TestAfterARestartThereIsNoStorm(t *testing.T) {
	for name, lost := range map[string]bool{"with the state file": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Given 500 pods that are well, and an agent that was restarted
				path := filepath.Join(t.TempDir(), "probes.json")
				w := newWorld(t, path)
				const pods = 500
				state := state{Version: stateVersion, Containers: map[string]entry{}}
				for i := range pods {
					p := nth(i)
					state.Containers[id(i)] = entry{Pod: p.UID, Ready: new(true)}
				}
				if !lost {
					if err := w.file.write(state); err != nil {
						t.Fatal(err)
					}
					w = newWorld(t, path)
				}
				// When all of them are seen at once
				w.start()
				for i := range pods {
					w.Watch(nth(i), has(runs(id(i), w.began.Add(-time.Hour))))
				}
				if r := w.Health(id(7)).Ready; r == nil || *r == lost {
					t.Errorf("the state file was lost: %t, ready: %v", lost, r)
				}
				w.pass(time.Minute + 9999*time.Millisecond)

				// Then each has its turn once in its period, and no moment is crowded
				if want := 2 * 7 * pods; len(w.at) != want {
					t.Errorf("%d probes in 70 s, want %d", len(w.at), want)
				}
				if most := mostWithin(w.at, 100*time.Millisecond); most > 30 {
					t.Errorf("%d probes within 100 ms; on average there are 10", most)
				}
				w.stopRun()
			})
		})
	}
}

func nth(i int) *v1.Pod {
	return web(fmt.Sprint("pod-", i), nil, asking("live"), asking("ready"))
}

func id(i int) string { return fmt.Sprint("c", i) }

// mostWithin is how many moments there are at most in any window of that length.
func mostWithin(moments []time.Time, window time.Duration) (most int) {
	slices.SortFunc(moments, time.Time.Compare)
	begin := 0
	for i, at := range moments {
		for at.Sub(moments[begin]) >= window {
			begin++
		}
		most = max(most, i-begin+1)
	}
	return most
}

func TestALongPeriodDoesNotKeepAnUnknownContainerWaiting(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Watch(web("a", nil, nil, asking("ready", period(600))), has(runs("c1", w.began.Add(-time.Hour))))
		w.pass(10 * time.Second)
		w.expectHealth("c1", "started=- ready=true dead=")
	})
}

func TestAStateFileOfWhichSomethingCantBeUsed(t *testing.T) {
	for name, text := range map[string]string{
		"one of other types": `{"version":1,"containers":{"c1":{"pod":"uid-a","ready":true},"c2":7}}`,
		"newer":              `{"version":2,"more":[],"containers":{"c1":{"pod":"uid-a","ready":true,"colour":"red"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "probes.json")
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				w := newWorld(t, path)
				w.start()
				w.watch(web("a", nil, nil, asking("ready")), "c1")
				w.expectHealth("c1", "started=- ready=true dead=")
				w.stopRun()
			})
		})
	}
}

func TestAStateFileThatCantBeUsed(t *testing.T) {
	good := `{"version":1,"containers":{"c1":{"pod":"uid-a","ready":true}}}`
	for name, tc := range map[string]struct{ text, want string }{
		"empty":       {"", "unexpected end"},
		"cut off":     {good[:len(good)-9], "unexpected end"},
		"not JSON":    {"\x00\x00\x00", "invalid character"},
		"other types": {`{"version":1,"containers":{"c1":7}}`, "cannot unmarshal"},
		"too new":     {`{"version":2}`, "version is 2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "probes.json")
				if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
					t.Fatal(err)
				}
				w := newWorld(t, path)
				if log := w.log.String(); !strings.Contains(log, tc.want) || !strings.Contains(log, path) {
					t.Errorf("log: %s", log)
				}
				// It goes on as if there were none, and replaces it
				w.start()
				w.watch(web("a", nil, nil, asking("ready")), "c1")
				w.pass(2 * time.Second)
				w.stopRun()
				if raw, err := os.ReadFile(path); err != nil || string(raw) != good {
					t.Errorf("%s (%v), want %s", raw, err, good)
				}
			})
		})
	}
}

func TestAFileThatCantBeWrittenIsTriedAgainAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file where a folder should be
			t.Fatal(err)
		}
		path := filepath.Join(dir, "probes.json")
		w := newWorld(t, path)
		w.log.Reset() // it could not be read either
		w.start()
		w.watch(web("a", nil, nil, asking("ready")), "c1")
		w.pass(time.Minute)
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		w.pass(saveRetryInterval)
		if raw, err := os.ReadFile(path); err != nil || !strings.Contains(string(raw), `"ready":true`) {
			t.Errorf("%s (%v)", raw, err)
		}
		w.stopRun()
		if log := w.log.String(); strings.Count(log, "can't write down") != 1 || strings.Count(log, "written down again") != 1 {
			t.Errorf("log: %s", log)
		}
	})
}

// A restarted agent must know the results that the one before has sent, even if that was killed the
// moment after.
func TestAChangeIsOnDiskBeforeItIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "probes.json")
		w := newWorld(t, path)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.Run(ctx) }()
		w.watch(web("a", nil, nil, asking("ready")), "c1")
		w.watch(web("b", nil, nil, asking("ready")), "c2")
		for range 2 {
			result := <-w.Readiness
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf(`"%s":{"pod":"%s","ready":true}`, result.ContainerID, result.UID); !strings.Contains(string(raw), want) {
				t.Errorf("%s is reported, and on disk is %s", result.ContainerID, raw)
			}
		}
		cancel()
		<-ended
	})
}

// A reader that asks before the sync loop got a result must not know more than the disk.
func TestResultsAreReadableOnlyWhenTheyAreOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Given a container whose first turn has come
		w := newWorld(t, filepath.Join(t.TempDir(), "probes.json"))
		p := web("a", nil, nil, asking("ready"))
		w.watch(p, "c1")
		turn, _ := w.due(time.Now())
		q, ok := w.startCheck(turn, func() {})
		if !ok {
			t.Fatal("there is nothing to ask")
		}
		// When it has answered, then no reader gets the result, not even after another sync
		if _, health, _ := w.recordResult(t.Context(), turn, q, success("")); health == nil || !*health.Ready {
			t.Fatalf("nothing has changed: %v", health)
		}
		w.expectHealth("c1", "started=- ready=false dead=")
		w.watch(p, "c1")
		w.expectHealth("c1", "started=- ready=false dead=")
		// Until it is on disk
		if !w.commit() {
			t.Error("it could not be written")
		}
		w.expectHealth("c1", "started=- ready=true dead=")
	})
}

func TestResultsWithoutAContainerAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "probes.json")
		old := state{Version: stateVersion, Containers: map[string]entry{"c1": {Pod: "uid-a", Ready: new(true)}, "c2": {Pod: "uid-b"}}}
		if err := newWorld(t, path).file.write(old); err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, path)
		w.start()
		w.Forget(pod.UID("uid-b"))
		w.expectHealth("c1", "started=- ready=true dead=")
		w.pass(unclaimedTTL + time.Second)
		w.watch(web("c", nil, nil, asking("ready")), "c3")
		w.pass(time.Second)
		w.expectHealth("c1", "started=- ready=- dead=")
		w.stopRun()
		if raw, err := os.ReadFile(path); err != nil || string(raw) != `{"version":1,"containers":{"c3":{"pod":"uid-c","ready":true}}}` {
			t.Errorf("%s (%v)", raw, err)
		}
	})
}
