package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A scenario file tells the story of one pod. Lines up to "----" say what happens;
// the lines after it, up to a blank one, are the plan that must follow.
//
// What is wanted:
//
//	pod NAME restart=POLICY [init=a,b] containers=c,d
//	sidecar CONTAINER                  an init container that goes on beside the others
//	policy CONTAINER POLICY            its own restart policy
//	rule CONTAINER in=1,2 action=A     its own rule for exit codes; or notin=
//	debug NAME                         an ephemeral container is added
//	edit CONTAINER image=X             its spec changes
//	drop CONTAINER                     the spec loses it
//	hostnetwork                        the sandbox must change
//	orphan                             no source has the spec any more
//
// What happens:
//
//	now T                              the clock shows T; it may be set back
//	apply                              what was planned is done, at once
//	apply first=N [half]               only so much of it, then the agent dies, at once or in the middle of the next
//	apply without=CONTAINER            but for this one, whose image is not there yet
//	agent restarts                     what was planned is forgotten
//	exit CONTAINER code=N [at=T]       a running container ends
//	unstartable CONTAINER [at=T]       the runtime could not start it: it ended and never began
//	halfmade CONTAINER                 the agent died between create and start
//	lose CONTAINER                     the runtime forgets its state
//	collect CONTAINER                  the newest dead one of that name is removed
//	twin CONTAINER                     a second one runs beside it
//	sandbox dies [alone]               and its containers with it, or not
//	terminate [waves=N] [code=N]       the pod is stopped in the order that is planned: all of it, or so many waves
//	revive                             what is there is of a life that is over, and a new one begins
//
// With "stop order" among the lines, the order in which the pod is to be stopped
// follows instead of a plan: one wave a line.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios found: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(text), "# ") {
				t.Error("the first line does not say what is being reported")
			}
			s := &scenario{simulation: newSimulation()}
			for i, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
				input, want, ok := strings.Cut(block, "\n----\n")
				if !ok {
					t.Fatalf("block %d has no ---- line:\n%s", i+1, block)
				}
				got, err := s.play(input)
				if err != nil {
					t.Fatalf("block %d: %v", i+1, err)
				}
				if got != strings.TrimSpace(want) {
					t.Fatalf("block %d, after\n%s\n\ngot:\n%s\n\nwant:\n%s", i+1, input, got, strings.TrimSpace(want))
				}
			}
		})
	}
}

type scenario struct {
	*simulation
	plan Plan
}

// play performs one block and returns the plan that follows.
func (s *scenario) play(block string) (string, error) {
	stopOrder := false
	for line := range strings.Lines(block) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if slices.Equal(words, []string{"stop", "order"}) {
			stopOrder = true
		} else if err := s.happen(words); err != nil {
			return "", fmt.Errorf("%q: %w", strings.TrimSpace(line), err)
		}
	}
	if stopOrder {
		return describeOrder(StopOrder(s.want, s.have.Containers)), nil
	}
	s.plan = s.next()
	return s.describe(), nil
}

// happen lets one line happen. What it is about is the first word without "=".
func (s *scenario) happen(words []string) error {
	opt := map[string]string{}
	args := []string{"", ""}
	n := 0
	for _, word := range words[1:] {
		if k, v, ok := strings.Cut(word, "="); ok {
			opt[k] = v
		} else if n < len(args) {
			args[n] = word
			n++
		}
	}
	if at, ok := opt["at"]; ok {
		if err := s.moveTo(at); err != nil {
			return err
		}
	}
	if done, err := s.changeSpec(words[0], args, opt); done || err != nil {
		return err
	}
	if done, err := s.move(words[0], args, opt); done || err != nil {
		return err
	}
	return s.changeRuntime(words[0], args, opt)
}
