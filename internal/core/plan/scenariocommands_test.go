package plan

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// changeSpec performs the commands that change the desired pod.
func (s *scenario) changeSpec(word string, args []string, opt map[string]string) (bool, error) {
	spec := &v1.Container{}
	switch word {
	case "sidecar", "policy", "rule", "edit":
		if spec = pod.ContainerSpec(s.want, args[0]); spec == nil {
			return false, fmt.Errorf("the pod has no container %q", args[0])
		}
	}
	switch word {
	case "pod":
		s.want = &v1.Pod{}
		s.want.Name, s.want.Namespace, s.want.UID = args[0], "default", "uid"
		s.want.Spec.RestartPolicy = v1.RestartPolicy(opt["restart"])
		s.want.Spec.InitContainers = containersNamed(opt["init"])
		s.want.Spec.Containers = containersNamed(opt["containers"])
	case "sidecar":
		spec.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	case "policy":
		spec.RestartPolicy = new(v1.ContainerRestartPolicy(args[1]))
	case "rule":
		on := &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn}
		codes := opt["in"]
		if opt["notin"] != "" {
			on.Operator, codes = v1.ContainerRestartRuleOnExitCodesOpNotIn, opt["notin"]
		}
		for _, code := range strings.Split(codes, ",") {
			n, err := strconv.ParseInt(code, 10, 32)
			if err != nil {
				return false, err
			}
			on.Values = append(on.Values, int32(n))
		}
		spec.RestartPolicyRules = append(spec.RestartPolicyRules,
			v1.ContainerRestartRule{Action: v1.ContainerRestartRuleAction(opt["action"]), ExitCodes: on})
	case "debug":
		s.want.Spec.EphemeralContainers = append(s.want.Spec.EphemeralContainers,
			v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: args[0], Image: "debug"}})
	case "edit":
		spec.Image = opt["image"]
	case "drop":
		named := func(c v1.Container) bool { return c.Name == args[0] }
		s.want.Spec.Containers = slices.DeleteFunc(s.want.Spec.Containers, named)
		s.want.Spec.InitContainers = slices.DeleteFunc(s.want.Spec.InitContainers, named)
	case "hostnetwork":
		s.want.Spec.HostNetwork = true
	case "orphan":
		s.want.Spec = v1.PodSpec{}
	default:
		return false, nil
	}
	return true, nil
}

func containersNamed(names string) []v1.Container {
	var out []v1.Container
	for name := range strings.SplitSeq(names, ",") {
		if name != "" {
			out = append(out, v1.Container{Name: name, Image: "one"})
		}
	}
	return out
}

// move performs the commands of time and of the agent.
func (s *scenario) move(word string, args []string, opt map[string]string) (bool, error) {
	switch word {
	case "now":
		return true, s.moveTo(args[0])
	case "agent":
		s.plan = Plan{}
	case "apply":
		return true, s.apply(opt, args[0] == "half")
	case "terminate":
		return true, s.terminate(opt)
	case "revive":
		s.live()
	default:
		return false, nil
	}
	return true, nil
}

func (s *scenario) moveTo(at string) (err error) {
	s.at, err = time.ParseDuration(at)
	return err
}

// apply performs the planned actions.
func (s *scenario) apply(opt map[string]string, half bool) error {
	n, err := count(opt, "first", len(s.plan.Actions))
	if err != nil || n > len(s.plan.Actions) || len(s.plan.Actions) == 0 || half && n == len(s.plan.Actions) {
		return errors.Join(err, fmt.Errorf("%d actions are planned", len(s.plan.Actions)))
	}
	for _, a := range s.plan.Actions[:n] {
		if start, ok := a.(StartContainer); !ok || start.Name != opt["without"] {
			s.do(a, 137)
		}
	}
	if half {
		s.begin(s.plan.Actions[n])
	}
	s.plan = Plan{}
	return nil
}

// terminate stops the pod as its worker would.
func (s *scenario) terminate(opt map[string]string) error {
	order := StopOrder(s.want, s.have.Containers)
	waves, err := count(opt, "waves", len(order))
	if err != nil || waves > len(order) {
		return errors.Join(err, fmt.Errorf("there are %d waves", len(order)))
	}
	code, err := count(opt, "code", 137)
	for _, wave := range order[:waves] {
		for _, c := range wave {
			s.end(s.byID(c.ID), int32(code))
		}
	}
	if _, partly := opt["waves"]; !partly {
		for _, sandbox := range s.have.Sandboxes {
			s.killSandbox(sandbox.ID)
		}
	}
	return err
}

func count(opt map[string]string, key string, otherwise int) (int, error) {
	if opt[key] == "" {
		return otherwise, nil
	}
	return strconv.Atoi(opt[key])
}

// changeRuntime performs the commands that change containers and sandboxes.
func (s *scenario) changeRuntime(word string, args []string, opt map[string]string) error {
	if word == "cgroup" {
		s.have.CgroupGone = args[0] == "vanishes"
		return nil
	}
	if word == "sandbox" {
		if len(s.have.Sandboxes) == 0 || args[0] != "dies" {
			return errors.New("there is no sandbox, or it does not die")
		}
		if args[1] == "alone" {
			s.killSandbox(s.have.Sandboxes[0].ID)
		} else {
			s.stopSandbox(s.have.Sandboxes[0].ID, 137)
		}
		return nil
	}
	c := s.have.Container(args[0])
	if c == nil {
		return fmt.Errorf("no such container, or the unknown word %q", word)
	}
	switch word {
	case "exit", "unstartable":
		code, err := count(opt, "code", 128)
		if err != nil || !c.MayRun() {
			return errors.Join(err, fmt.Errorf("%s has to run", c.ID))
		}
		s.end(c, int32(code))
		if word == "unstartable" {
			c.StartedAt = time.Time{}
		}
	case "halfmade":
		c.State, c.StartedAt = pod.ContainerCreated, time.Time{}
	case "lose":
		c.State = pod.ContainerUnknown
	case "collect":
		for i := range s.have.Containers {
			if dead := s.have.Containers[i]; dead.Name == args[0] && dead.State == pod.ContainerExited {
				s.remove(dead.ID)
				return nil
			}
		}
		return errors.New("no dead one is there")
	case "starting":
		c.Health.Started = new(false)
	case "started":
		c.Health.Started = new(true)
	case "unhealthy":
		c.Health.Dead = "liveness probe failed"
		if opt["grace"] != "" {
			seconds, err := strconv.ParseInt(opt["grace"], 10, 64)
			if err != nil {
				return err
			}
			c.Health.Grace = &seconds
		}
	case "twin":
		twin := *c
		twin.ID, twin.CreatedAt = twin.ID+"-twin", s.tick()
		s.add(twin)
	default:
		return fmt.Errorf("unknown word %q", word)
	}
	return nil
}
