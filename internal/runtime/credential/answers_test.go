package credential

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	plugin "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"berth/internal/runtime/keyring"
)

// oracle is a plugin that takes a minute to answer.
type oracle struct {
	*answers
	t         *testing.T
	asked     []string
	now, most int
	says      answer
}

func newOracle(t *testing.T, says answer) *oracle {
	return &oracle{answers: newAnswers(), t: t, says: says}
}

// ask asks for a repository, and calls answered with the result.
func (o *oracle) ask(ctx context.Context, repository, who string, answered func(keyring.Ring, error)) {
	go func() {
		ring, err := o.get(ctx, question{repository, who}, func() answer {
			o.mu.Lock()
			o.asked = append(o.asked, strings.TrimSpace(repository+" "+who))
			o.now++
			o.most = max(o.most, o.now)
			o.mu.Unlock()
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			o.now--
			return o.says
		})
		o.mu.Lock()
		defer o.mu.Unlock()
		answered(ring, err)
	}()
	synctest.Wait()
}

func (o *oracle) expectAsked(want int) {
	o.t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.asked) != want || len(o.answers.asked) != 0 && o.now == 0 {
		o.t.Fatalf("asked %q, want %d questions", o.asked, want)
	}
}

func TestTheSameQuestionIsAskedOnce(t *testing.T) {
	for name, says := range map[string]answer{
		"an answer that is not kept": {kind: plugin.ImagePluginCacheKeyType, ring: keyring.Ring{{Pattern: "a"}}},
		"a failure":                  {err: errors.New("no")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// given several who ask the same, and some who ask for something else
				o, answered := newOracle(t, says), 0
				for range 5 {
					o.ask(t.Context(), "a.test/app", "", func(ring keyring.Ring, err error) {
						if answered++; len(ring) != len(says.ring) || !errors.Is(err, says.err) {
							t.Errorf("got %v, %v", ring, err)
						}
					})
				}
				o.ask(t.Context(), "a.test/other", "", func(keyring.Ring, error) {})
				o.ask(t.Context(), "a.test/app", "somebody", func(keyring.Ring, error) {})

				// then each is asked once, at the same time
				o.expectAsked(3)
				time.Sleep(time.Minute)
				o.expectAsked(3)
				if answered != 5 || o.most != 3 {
					t.Errorf("%d were reported, %d at a time", answered, o.most)
				}
			})
		})
	}
}

func TestAFewQuestionsAtATime(t *testing.T) {
	for name, c := range map[string]struct {
		says  answer
		asked int
		took  time.Duration
	}{
		"an answer for all holds for those who wait": {answer{kind: plugin.RegistryPluginCacheKeyType, until: time.Now().Add(1000 * time.Hour)}, maxAsked, time.Minute},
		"one for each does not":                      {answer{kind: plugin.ImagePluginCacheKeyType}, 2 * maxAsked, 2 * time.Minute},
		"nor does a failure":                         {answer{err: errors.New("no")}, 2 * maxAsked, 2 * time.Minute},
		"who does not answer is not asked again":     {answer{err: fmt.Errorf("%w: %q", silentError{time.Minute}, "hm")}, maxAsked, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// given more who ask than a plugin is asked at a time
				o, began, last := newOracle(t, c.says), time.Now(), time.Time{}
				answered := 0
				for i := range 2 * maxAsked {
					o.ask(t.Context(), fmt.Sprintf("a.test/%d", i), "", func(keyring.Ring, error) { answered, last = answered+1, time.Now() })
				}
				time.Sleep(time.Hour)
				o.expectAsked(c.asked)
				if answered != 2*maxAsked || o.most != maxAsked || last.Sub(began) != c.took {
					t.Errorf("%d were reported after %s, %d at a time", answered, last.Sub(began), o.most)
				}
			})
		})
	}
}

func TestAFailureStandsForAShortWhile(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		again string // who has the same failure, until it is over
		after time.Duration
	}{
		"no":     {errors.New("no"), "a.test/app", keepFailure},
		"silent": {silentError{time.Minute}, "a.test/other", keepSilence},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOracle(t, answer{err: c.err})
				var last error
				record := func(_ keyring.Ring, err error) { last = err }
				o.ask(t.Context(), "a.test/app", "", record)
				time.Sleep(time.Minute + c.after - time.Second)
				synctest.Wait()
				last = nil
				o.ask(t.Context(), c.again, "", record)
				o.expectAsked(1)
				if !errors.Is(last, c.err) {
					t.Errorf("got %v", last)
				}
				o.ask(t.Context(), "b.test/app", "", record) // another registry
				o.expectAsked(2)
				time.Sleep(2 * time.Minute)
				o.ask(t.Context(), c.again, "", record)
				o.expectAsked(3)
				time.Sleep(time.Minute)
				synctest.Wait()
			})
		})
	}
}

func TestACallerThatLeavesTakesTheAnswerFromNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given two who ask the same, and the one who came first goes
		o := newOracle(t, answer{ring: keyring.Ring{{Pattern: "a"}}})
		ctx, cancel := context.WithCancel(t.Context())
		var first error
		var second keyring.Ring
		o.ask(ctx, "a.test/app", "", func(_ keyring.Ring, err error) { first = err })
		o.ask(t.Context(), "a.test/app", "", func(ring keyring.Ring, _ error) { second = ring })
		cancel()

		// then the other one asks
		time.Sleep(time.Minute)
		o.expectAsked(2)
		if !errors.Is(first, context.Canceled) || len(second) != 1 {
			t.Errorf("got %v and %v", first, second)
		}
	})
}

func TestAPluginThatHangsGoesWithAllThatItStarted(t *testing.T) {
	for name, script := range map[string]string{
		"it hangs": "#!/bin/sh\nsleep 600 & echo $! > \"$0.child\"; wait\n",
		"it went":  "#!/bin/sh\nsleep 600 & echo $! > \"$0.child\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			// given a plugin that started something
			p, program, err := plugins(t, fmt.Sprintf(config, "10m"), script)
			if err != nil {
				t.Fatal(err)
			}
			p.list[0].timeout = 2 * time.Second // enough for the shell to start, on a busy machine, too
			n, _ := newKeyring(t, Config{Plugins: p})

			// when it does not answer
			_, err = n.Lookup(t.Context(), "a.test/app", nil)
			if err == nil {
				t.Fatal("got no error")
			}
			if name == "it hangs" && !strings.Contains(err.Error(), "no answer within 2s") {
				t.Errorf("got %v", err)
			}

			// then nothing of it is left
			text, err := os.ReadFile(filepath.Clean(program + ".child"))
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(5 * time.Second); runs(pid); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
					t.Fatal("what it started still runs")
				}
			}
		})
	}
}

// runs reports whether a process exists and is no zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
