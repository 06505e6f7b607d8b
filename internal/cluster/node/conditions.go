package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMessage is the length, in bytes, to which the error in a condition's message is cut.
const maxMessage = 1 << 10

// outcome is the text of a condition with one status. Reasons and events are the kubelet's:
// alerts and dashboards look for them.
type outcome struct{ reason, message, event string }

// pressures are the conditions that are good when they are False.
var pressures = []struct {
	kind      v1.NodeConditionType
	of        func(Pressure) bool
	good, bad outcome
}{
	{
		v1.NodeMemoryPressure, func(p Pressure) bool { return p.Memory },
		outcome{"KubeletHasSufficientMemory", "there is enough memory", "NodeHasSufficientMemory"},
		outcome{"KubeletHasInsufficientMemory", "memory runs out", "NodeHasInsufficientMemory"},
	},
	{
		v1.NodeDiskPressure, func(p Pressure) bool { return p.Disk },
		outcome{"KubeletHasNoDiskPressure", "there is enough space on disk", "NodeHasNoDiskPressure"},
		outcome{"KubeletHasDiskPressure", "space on disk runs out", "NodeHasDiskPressure"},
	},
	{
		v1.NodePIDPressure, func(p Pressure) bool { return p.PIDs },
		outcome{"KubeletHasSufficientPID", "there are enough process IDs", "NodeHasSufficientPID"},
		outcome{"KubeletHasInsufficientPID", "process IDs run out", "NodeHasInsufficientPID"},
	},
}

// conditions returns shown, the present conditions of the Node, with ours set by h; conditions of
// other programs are kept. The transition time changes only with the status.
func conditions(h Health, shown []v1.NodeCondition, now time.Time) []v1.NodeCondition {
	out := slices.Clone(shown)
	for _, ours := range ourConditions(h) {
		ours.LastHeartbeatTime = stamp(now)
		ours.LastTransitionTime = stamp(now)
		if before := find(shown, ours.Type); before != nil && before.Status == ours.Status {
			ours.LastTransitionTime = before.LastTransitionTime
		}
		out = put(out, ours)
	}
	return out
}

// stamp returns a time as API servers store it: in whole seconds.
func stamp(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

func ourConditions(h Health) []v1.NodeCondition {
	var out []v1.NodeCondition
	for _, p := range pressures {
		c := v1.NodeCondition{Type: p.kind, Status: v1.ConditionFalse, Reason: p.good.reason, Message: p.good.message}
		if p.of(h.Pressure) {
			c.Status, c.Reason, c.Message = v1.ConditionTrue, p.bad.reason, p.bad.message
		}
		out = append(out, c)
	}
	ready := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "berth runs pods here"}
	if why := h.notReadyReason(); why != "" {
		ready.Status, ready.Reason, ready.Message = v1.ConditionFalse, "KubeletNotReady", why
	}
	return append(out, ready)
}

// notReadyReason returns why no pods can run here, or "".
func (h Health) notReadyReason() string {
	var why []string
	for _, part := range []struct {
		name string
		err  error
	}{{"the node takes no pods", h.Shutdown}, {"container runtime not ready", h.Runtime}, {"container runtime network not ready", h.Network}, {"sync loop not ready", h.SyncLoop}} {
		if part.err != nil {
			why = append(why, part.name+": "+part.err.Error())
		}
	}
	text := strings.Join(why, "; ")
	if len(text) > maxMessage {
		text = text[:maxMessage]
	}
	return strings.ToValidUTF8(text, "")
}

// transitions returns our conditions whose status has changed.
func transitions(before, after []v1.NodeCondition) []v1.NodeCondition {
	var out []v1.NodeCondition
	for _, c := range ours(after) {
		if was := find(before, c.Type); was == nil || was.Status != c.Status {
			out = append(out, c)
		}
	}
	return out
}

// eventFor returns the reason and the message of the event for a condition that changed.
func eventFor(node string, c v1.NodeCondition) (reason, message string) {
	reason = "NodeNotReady"
	if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
		reason = "NodeReady"
	}
	for _, p := range pressures {
		switch {
		case p.kind == c.Type && c.Status == v1.ConditionTrue:
			reason = p.bad.event
		case p.kind == c.Type:
			reason = p.good.event
		}
	}
	return reason, fmt.Sprintf("Node %s status is now: %s", node, reason)
}

// ours returns the conditions that a kubelet writes, without those of other programs.
func ours(conditions []v1.NodeCondition) []v1.NodeCondition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c v1.NodeCondition) bool {
		for _, p := range pressures {
			if c.Type == p.kind {
				return false
			}
		}
		return c.Type != v1.NodeReady
	})
}

func find(conditions []v1.NodeCondition, kind v1.NodeConditionType) *v1.NodeCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// put returns conditions with c in place of the condition of the same type.
func put(conditions []v1.NodeCondition, c v1.NodeCondition) []v1.NodeCondition {
	if at := find(conditions, c.Type); at != nil {
		*at = c
		return conditions
	}
	return append(conditions, c)
}
