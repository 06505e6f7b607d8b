package plan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/internal/lib/pod"
)

// Whatever happens to a pod, its plans keep to the rules of the model, and once
// nothing more happens they lead to a pod that is up or finished.
func TestEveryPlanKeepsToTheRules(t *testing.T) {
	for seed := range uint64(200) {
		bytes := make([]byte, 160)
		rng := rand.New(rand.NewPCG(seed, 0))
		for i := 0; i < len(bytes); i += 8 {
			binary.LittleEndian.PutUint64(bytes[i:], rng.Uint64())
		}
		if story, err := playRandom(bytes); err != nil {
			t.Fatalf("seed %d: %v, after\n%s", seed, err, story)
		}
	}
}

func FuzzNext(f *testing.F) {
	f.Add([]byte("a pod"))
	f.Add([]byte(strings.Repeat("init, sidecar, exit, restart, ", 5)))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if story, err := playRandom(bytes[:min(len(bytes), 1000)]); err != nil {
			t.Fatalf("%v, after\n%s", err, story)
		}
	})
}

// playRandom generates a pod and its events, one byte a choice. It returns the story, and the error
// of the first wrong plan.
func playRandom(bytes []byte) (string, error) {
	t := &randomRun{simulation: newSimulation(), choices: bytes}
	t.model = newModel(t.simulation)
	t.inventPod()
	for len(t.choices) > 0 {
		if err := t.event(); err != nil {
			return t.story.String(), err
		}
	}
	err := t.settle()
	return t.story.String(), err
}

func (t *randomRun) event() error {
	switch t.choose(12) {
	default:
		return t.sync(false)
	case 5, 6:
		return t.sync(true)
	case 7:
		t.someExit()
	case 8:
		t.sandboxDies()
	case 9:
		t.collect()
	case 10:
		t.timePasses()
	case 11:
		t.userActs()
	}
	t.model.note()
	return nil
}

// sync plans, and performs all or a part of the actions.
func (t *randomRun) sync(partly bool) error {
	p, err := t.plan()
	if err != nil {
		return err
	}
	n := len(p.Actions)
	if partly {
		n = t.choose(n + 1)
	}
	half := n < len(p.Actions) && t.choose(2) == 0
	t.model.applying(p.Actions[:n])
	if half {
		t.model.applying(p.Actions[:n+1])
	}
	for _, a := range p.Actions[:n] {
		if t.choose(8) == 0 {
			t.someExit() // meanwhile
			t.model.note()
		}
		t.do(a, t.code())
		t.model.did(a)
	}
	if n < len(p.Actions) {
		t.record("the agent dies after %d of these", n)
		if half {
			t.record("and in the middle of the next")
			t.begin(p.Actions[n])
			t.model.began(p.Actions[n])
		}
	}
	return nil
}

// plan makes a plan, twice, and has it judged.
func (t *randomRun) plan() (Plan, error) {
	have := t.have
	have.Containers, have.Sandboxes = slices.Clone(t.have.Containers), slices.Clone(t.have.Sandboxes)
	p := t.next()
	t.record("plan at %s:", t.now().Sub(t.start))
	for _, a := range p.Actions {
		t.record("  %s", describeAction(a))
	}
	for _, wait := range p.Waits {
		t.record("  wait %s", wait.Container)
	}
	if p.Finished {
		t.record("  finished")
	}
	if !reflect.DeepEqual(p, t.next()) {
		return p, errors.New("the same input gave two plans")
	}
	if !reflect.DeepEqual(have, t.have) {
		return p, errors.New("planning changed what it was given")
	}
	return p, t.model.check(p)
}

// settle performs plans until there are no actions left. Init containers succeed.
func (t *randomRun) settle() error {
	t.record("nothing more happens")
	for range 300 {
		p, err := t.plan()
		if err != nil {
			return err
		}
		switch running := t.pick(func(c *pod.Container) bool { return c.MayRun() && t.model.initPlace(c.Name) >= 0 }); {
		case len(p.Actions) > 0:
			t.model.applying(p.Actions)
			for _, a := range p.Actions {
				t.do(a, 137)
				t.model.did(a)
			}
		case running != nil:
			t.record("%s succeeds", running.ID)
			t.end(running, 0)
			t.model.note()
		case len(p.Waits) > 0:
			t.at += p.Due().Sub(t.now())
		case p.Finished:
			return nil
		default:
			return t.settled()
		}
	}
	return errors.New("it never comes to rest")
}

// settled returns an error if something is missing in a pod that should be up.
func (t *randomRun) settled() error {
	for _, c := range slices.Concat(t.want.Spec.InitContainers, t.want.Spec.Containers) {
		up := t.model.here(c.Name)
		if t.model.initPlace(c.Name) < 0 && !t.model.final[c.Name] && (up == nil || up.State != pod.ContainerRunning) {
			return fmt.Errorf("%s does not run", c.Name)
		}
	}
	names := map[string]bool{}
	for _, c := range t.have.Containers {
		if !c.MayRun() {
			continue
		}
		if names[c.Name] || c.SandboxID != t.have.Sandboxes[0].ID || c.State == pod.ContainerUnknown {
			return fmt.Errorf("%s should not run", c.ID)
		}
		names[c.Name] = true
	}
	return nil
}
