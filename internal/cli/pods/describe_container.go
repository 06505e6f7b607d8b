package pods

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/cli/printers"
)

// describeContainers returns the entries of init, main and ephemeral containers.
func describeContainers(p *v1.Pod) []printers.Entry {
	var ephemeral []v1.Container
	for _, c := range p.Spec.EphemeralContainers {
		ephemeral = append(ephemeral, v1.Container(c.EphemeralContainerCommon))
	}
	var out []printers.Entry
	for _, group := range []struct {
		name       string
		containers []v1.Container
		statuses   []v1.ContainerStatus
	}{
		{"Init Containers", p.Spec.InitContainers, p.Status.InitContainerStatuses},
		{"Containers", p.Spec.Containers, p.Status.ContainerStatuses},
		{"Ephemeral Containers", ephemeral, p.Status.EphemeralContainerStatuses},
	} {
		if len(group.containers) == 0 {
			continue
		}
		e := printers.Entry{Name: group.name}
		for i := range group.containers {
			c := &group.containers[i]
			var status *v1.ContainerStatus
			if at := slices.IndexFunc(group.statuses, func(s v1.ContainerStatus) bool { return s.Name == c.Name }); at >= 0 {
				status = &group.statuses[at]
			}
			e.Children = append(e.Children, printers.Entry{Name: c.Name, Children: describeContainer(c, status)})
		}
		out = append(out, e)
	}
	return out
}

// describeContainer returns the entries of a container. Its status is nil if it has none yet.
func describeContainer(c *v1.Container, status *v1.ContainerStatus) []printers.Entry {
	var out []printers.Entry
	if status != nil {
		out = append(out, printers.NewEntry("Container ID", printers.OrNone(status.ContainerID)))
	}
	out = append(out, printers.NewEntry("Image", c.Image))
	if status != nil {
		out = append(out, printers.NewEntry("Image ID", printers.OrNone(status.ImageID)))
	}
	out = append(out, describePorts(c.Ports)...)
	out = append(out, commandEntries("Command", c.Command)...)
	out = append(out, commandEntries("Args", c.Args)...)
	if c.RestartPolicy != nil {
		out = append(out, printers.NewEntry("Restart Policy", string(*c.RestartPolicy)))
	}
	if status != nil {
		out = append(out, describeState("State", &status.State))
		if last := &status.LastTerminationState; last.Terminated != nil {
			out = append(out, describeState("Last State", last))
		}
		out = append(out,
			printers.NewEntry("Ready", printers.Bool(status.Ready)),
			printers.NewEntry("Restart Count", fmt.Sprint(status.RestartCount)))
	}
	out = append(out, printers.ResourceEntries("Limits", c.Resources.Limits)...)
	out = append(out, printers.ResourceEntries("Requests", c.Resources.Requests)...)
	out = append(out, describeProbe("Liveness", c.LivenessProbe)...)
	out = append(out, describeProbe("Readiness", c.ReadinessProbe)...)
	out = append(out, describeProbe("Startup", c.StartupProbe)...)
	out = append(out, describeEnv(c)...)
	return append(out, describeMounts(c.VolumeMounts))
}

func describePorts(ports []v1.ContainerPort) []printers.Entry {
	if len(ports) == 0 {
		return []printers.Entry{printers.NewEntry("Port", "<none>")}
	}
	var own, host []string
	onHost := false
	for _, p := range ports {
		own = append(own, fmt.Sprintf("%d/%s", p.ContainerPort, p.Protocol))
		host = append(host, fmt.Sprintf("%d/%s", p.HostPort, p.Protocol))
		onHost = onHost || p.HostPort != 0
	}
	plural := ""
	if len(ports) > 1 {
		plural = "s"
	}
	out := []printers.Entry{printers.NewEntry("Port"+plural, strings.Join(own, ", "))}
	if onHost {
		out = append(out, printers.NewEntry("Host Port"+plural, strings.Join(host, ", ")))
	}
	return out
}

// commandEntries returns an entry with one argument per line, or none without arguments.
func commandEntries(name string, args []string) []printers.Entry {
	if len(args) == 0 {
		return nil
	}
	return []printers.Entry{printers.NewListEntry(name, args)}
}

// describeState returns the entry of the state of a container.
func describeState(name string, s *v1.ContainerState) printers.Entry {
	var e printers.Entry
	add := func(name, text string) {
		if text != "" {
			e.Children = append(e.Children, printers.NewEntry(name, text))
		}
	}
	stamp := func(name string, t time.Time) {
		if !t.IsZero() {
			add(name, printers.LongTime(t))
		}
	}
	switch {
	case s.Running != nil:
		e = printers.NewEntry(name, "Running")
		stamp("Started", s.Running.StartedAt.Time)
	case s.Terminated != nil:
		e = printers.NewEntry(name, "Terminated")
		add("Reason", s.Terminated.Reason)
		add("Message", s.Terminated.Message)
		add("Exit Code", fmt.Sprint(s.Terminated.ExitCode))
		if s.Terminated.Signal != 0 {
			add("Signal", fmt.Sprint(s.Terminated.Signal))
		}
		stamp("Started", s.Terminated.StartedAt.Time)
		stamp("Finished", s.Terminated.FinishedAt.Time)
	default:
		e = printers.NewEntry(name, "Waiting")
		if s.Waiting != nil {
			add("Reason", s.Waiting.Reason)
			add("Message", s.Waiting.Message)
		}
	}
	return e
}

func describeProbe(name string, p *v1.Probe) []printers.Entry {
	if p == nil {
		return nil
	}
	return []printers.Entry{printers.NewEntry(name, fmt.Sprintf("%s delay=%ds timeout=%ds period=%ds #success=%d #failure=%d",
		probeTarget(p), p.InitialDelaySeconds, p.TimeoutSeconds, p.PeriodSeconds, p.SuccessThreshold, p.FailureThreshold))}
}

func probeTarget(p *v1.Probe) string {
	switch {
	case p.Exec != nil:
		return fmt.Sprintf("exec %v", p.Exec.Command)
	case p.HTTPGet != nil:
		scheme := strings.ToLower(cmp.Or(string(p.HTTPGet.Scheme), "http"))
		return fmt.Sprintf("http-get %s://%s:%s/%s", scheme, p.HTTPGet.Host, p.HTTPGet.Port.String(), strings.TrimPrefix(p.HTTPGet.Path, "/"))
	case p.TCPSocket != nil:
		return fmt.Sprintf("tcp-socket %s:%s", p.TCPSocket.Host, p.TCPSocket.Port.String())
	case p.GRPC != nil:
		text := fmt.Sprintf("grpc :%d", p.GRPC.Port)
		if p.GRPC.Service != nil && *p.GRPC.Service != "" {
			text += " " + *p.GRPC.Service
		}
		return text
	default:
		return "unknown"
	}
}

func describeEnv(c *v1.Container) []printers.Entry {
	var out []printers.Entry
	for _, from := range c.EnvFrom {
		what := "<unknown>"
		switch {
		case from.ConfigMapRef != nil:
			what = "config map " + from.ConfigMapRef.Name
		case from.SecretRef != nil:
			what = "secret " + from.SecretRef.Name
		}
		if from.Prefix != "" {
			what += ", each with the prefix " + from.Prefix
		}
		out = append(out, printers.NewEntry("Environment From", what))
	}
	if len(c.Env) == 0 {
		return append(out, printers.NewEntry("Environment", "<none>"))
	}
	e := printers.Entry{Name: "Environment"}
	for _, v := range c.Env {
		value := v.Value
		if v.ValueFrom != nil {
			value = envReference(v.ValueFrom)
		}
		variable := printers.NewEntry(v.Name, value)
		if len(variable.Lines) == 0 {
			variable.Lines = []string{""} // an empty value
		}
		e.Children = append(e.Children, variable)
	}
	return append(out, e)
}

// envReference returns a text for the source of the value of a variable.
func envReference(from *v1.EnvVarSource) string {
	switch {
	case from.FieldRef != nil:
		return fmt.Sprintf("<field %s of the pod>", from.FieldRef.FieldPath)
	case from.ResourceFieldRef != nil:
		return fmt.Sprintf("<%s of container %s>", from.ResourceFieldRef.Resource, cmp.Or(from.ResourceFieldRef.ContainerName, "itself"))
	case from.ConfigMapKeyRef != nil:
		return fmt.Sprintf("<key %s of config map %s>", from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Name)
	case from.SecretKeyRef != nil:
		return fmt.Sprintf("<key %s of secret %s>", from.SecretKeyRef.Key, from.SecretKeyRef.Name)
	default:
		return "<unknown>"
	}
}

func describeMounts(mounts []v1.VolumeMount) printers.Entry {
	var lines []string
	for _, m := range mounts {
		how := "rw"
		if m.ReadOnly {
			how = "ro"
		}
		if part := m.SubPath + m.SubPathExpr; part != "" {
			how += ", path " + part
		}
		lines = append(lines, fmt.Sprintf("%s from %s (%s)", m.MountPath, m.Name, how))
	}
	return printers.NewListEntry("Mounts", lines)
}
