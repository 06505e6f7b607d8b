package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// randomRun is a random pod, and random events that happen to it.
type randomRun struct {
	*simulation
	model   *model
	choices []byte
	story   strings.Builder
}

// choose returns a number below n.
func (t *randomRun) choose(n int) int {
	if len(t.choices) == 0 || n < 2 {
		return 0
	}
	c := int(t.choices[0]) % n
	t.choices = t.choices[1:]
	return c
}

func (t *randomRun) record(format string, args ...any) { fmt.Fprintf(&t.story, format+"\n", args...) }

func (t *randomRun) code() int32 { return []int32{0, 1, 3, 137}[t.choose(4)] }

var policies = []v1.ContainerRestartPolicy{
	v1.ContainerRestartPolicyNever, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyAlways,
}

func (t *randomRun) inventPod() {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = "web", "default", "uid"
	p.Spec.RestartPolicy = v1.RestartPolicy(policies[t.choose(3)])
	for i := range t.choose(4) {
		c := v1.Container{Name: fmt.Sprintf("init%d-", i), Image: "one"}
		if t.choose(3) == 0 {
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		} else if t.choose(4) == 0 {
			c.RestartPolicy = &policies[t.choose(2)] // with the third it would be a sidecar
		}
		t.inventRule(&c)
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	for i := range 1 + t.choose(3) {
		c := v1.Container{Name: fmt.Sprintf("main%d-", i), Image: "one"}
		if t.choose(4) == 0 {
			c.RestartPolicy = &policies[t.choose(3)]
		}
		t.inventRule(&c)
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	t.want = p
	t.record("pod restart=%s", p.Spec.RestartPolicy)
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		policy := v1.ContainerRestartPolicy("")
		if c.RestartPolicy != nil {
			policy = *c.RestartPolicy
		}
		t.record("  %s %s %v", c.Name, policy, c.RestartPolicyRules)
	}
}

func (t *randomRun) inventRule(c *v1.Container) {
	if t.choose(4) != 0 {
		return
	}
	on := &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{t.code()}}
	if t.choose(2) == 0 {
		on.Operator = v1.ContainerRestartRuleOnExitCodesOpNotIn
	}
	if strings.HasPrefix(c.Name, "init") && matches(on, 0) {
		return // it would have to fail to succeed
	}
	action := v1.ContainerRestartRuleActionRestart
	if t.choose(2) == 0 {
		action = v1.ContainerRestartRuleActionRestartAllContainers
	}
	c.RestartPolicyRules = []v1.ContainerRestartRule{{Action: action, ExitCodes: on}}
}

// restartsAll reports whether a container may ask for a restart of all. The clock decides whether
// that was before the end of the pod, so it is not set back then.
func (t *randomRun) restartsAll() bool {
	return slices.ContainsFunc(slices.Concat(t.want.Spec.InitContainers, t.want.Spec.Containers), func(c v1.Container) bool {
		return len(c.RestartPolicyRules) > 0 && c.RestartPolicyRules[0].Action == v1.ContainerRestartRuleActionRestartAllContainers
	})
}

// pick returns one of the containers for which ok holds, or nil.
func (t *randomRun) pick(ok func(*pod.Container) bool) *pod.Container {
	var those []*pod.Container
	for i := range t.have.Containers {
		if c := &t.have.Containers[i]; ok(c) {
			those = append(those, c)
		}
	}
	if len(those) == 0 {
		return nil
	}
	return those[t.choose(len(those))]
}

func alivePod(c *pod.Container) bool { return c.MayRun() }

func (t *randomRun) someExit() {
	c := t.pick(alivePod)
	if c == nil {
		return
	}
	t.end(c, t.code())
	t.record("%s exits with %d", c.ID, c.ExitCode)
	if t.choose(8) == 0 {
		c.StartedAt = time.Time{}
	}
}

func (t *randomRun) sandboxDies() {
	if len(t.have.Sandboxes) == 0 {
		return
	}
	id := t.have.Sandboxes[0].ID
	if t.choose(2) == 0 {
		t.record("sandbox %s dies alone", id)
		t.killSandbox(id)
		return
	}
	t.record("sandbox %s dies", id)
	t.stopSandbox(id, t.code())
}

// collect removes a dead container, the oldest of its name. A container stays if it is the only
// trace of a fact: that a container ended for good, that a debug container has run, or which
// container asked for a restart of all.
func (t *randomRun) collect() {
	oldest := map[string]string{}
	for _, c := range t.have.Containers {
		oldest[c.Name] = c.ID
	}
	c := t.pick(func(c *pod.Container) bool {
		needed := t.model.over() || t.model.final[c.Name] || pod.IsEphemeral(t.want, c.Name) || t.model.restartingAll()
		return c.State == pod.ContainerExited && oldest[c.Name] == c.ID && !needed
	})
	if c != nil {
		t.record("%s is collected", c.ID)
		t.remove(c.ID)
	}
}

func (t *randomRun) timePasses() {
	d := []time.Duration{time.Second, 15 * time.Second, 11 * time.Minute, -time.Minute}[t.choose(4)]
	if d < 0 && t.restartsAll() {
		return
	}
	t.at += d
	t.record("the clock moves by %s", d)
}

func (t *randomRun) userActs() {
	switch t.choose(4) {
	case 0:
		if c := t.pick(alivePod); c != nil {
			t.record("%s is lost", c.ID)
			c.State = pod.ContainerUnknown
		}
	case 1:
		t.record("the sandbox must change")
		t.want.Spec.HostNetwork = !t.want.Spec.HostNetwork
	case 2:
		name := fmt.Sprintf("debug%d-", len(t.want.Spec.EphemeralContainers))
		t.record("%s is added", name)
		t.want.Spec.EphemeralContainers = append(t.want.Spec.EphemeralContainers,
			v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: name, Image: "debug"}})
	case 3:
		specs := t.want.Spec.Containers
		if t.choose(2) == 0 && len(t.want.Spec.InitContainers) > 0 {
			specs = t.want.Spec.InitContainers
		}
		c := &specs[t.choose(len(specs))]
		t.record("%s is edited", c.Name)
		c.Image += "+"
	}
}
