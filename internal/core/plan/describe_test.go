package plan

import (
	"fmt"
	"strings"
	"time"

	"berth/internal/lib/pod"
)

func (s *scenario) describe() string {
	var out []string
	for _, a := range s.plan.Actions {
		out = append(out, describeAction(a))
	}
	for _, wait := range s.plan.Waits {
		until := wait.Until.Sub(s.start).Round(time.Millisecond)
		out = append(out, fmt.Sprintf("wait %s until=%s reason=%s", wait.Container, until, wait.Reason))
	}
	if s.plan.Finished {
		out = append(out, "finished")
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, "\n")
}

func describeAction(a Action) string {
	switch a := a.(type) {
	case StopSandbox:
		return fmt.Sprintf("stop sandbox %s: %s", a.ID, a.Reason)
	case StopContainer:
		within := ""
		if a.Grace != nil {
			within = fmt.Sprintf(" within %ds", *a.Grace)
		}
		return fmt.Sprintf("stop %s%s: %s", a.ID, within, a.Reason)
	case DropContainer:
		return "drop " + a.ID
	case CreateSandbox:
		return fmt.Sprintf("create sandbox attempt=%d", a.Attempt)
	case StartContainer:
		return fmt.Sprintf("start %s restarts=%d backoff=%s", a.Name, a.RestartCount, a.Backoff)
	case RemoveContainer:
		return "remove " + a.ID
	case RemoveSandbox:
		return "remove sandbox " + a.ID
	default:
		return fmt.Sprintf("%#v", a)
	}
}

func describeOrder(waves [][]pod.Container) string {
	var out []string
	for _, wave := range waves {
		var ids []string
		for _, c := range wave {
			ids = append(ids, c.ID)
		}
		out = append(out, strings.Join(ids, " "))
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, "\n")
}
