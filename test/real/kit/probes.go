//go:build real

package kit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ProbeEachSecond asks once a second, and believes the first answer.
func ProbeEachSecond(what v1.ProbeHandler) *v1.Probe {
	return &v1.Probe{ProbeHandler: what, PeriodSeconds: 1, FailureThreshold: 1, TimeoutSeconds: 5}
}

// HTTPGet asks the server of a container at a port.
func HTTPGet(port int32) v1.ProbeHandler {
	return v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(port)}}
}

// ExecGet asks the server of a container by a command that runs in the container.
func ExecGet(port int32) v1.ProbeHandler {
	return v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/workload", "ask", fmt.Sprintf("http://127.0.0.1:%d/", port)}}}
}

// IsReady reports whether the pod has the condition Ready.
func IsReady(p v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}
