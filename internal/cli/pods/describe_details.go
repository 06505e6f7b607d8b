package pods

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
	"berth/internal/cli/printers"
	"berth/internal/lib/pod"
	"berth/internal/lib/printable"
	"berth/internal/lib/table"
)

// details are facts about a pod that its object does not hold.
type details struct {
	remote  bool // the pod is on another node, whose API has no details
	probes  []api.ProbeResult
	volumes []api.Volume
	refused []pod.Refusal // refused manifests of the pod
}

// writeProbes writes a table of the last results of the probes of a pod.
func writeProbes(b *strings.Builder, p *v1.Pod, results []api.ProbeResult, now time.Time) {
	if !hasProbes(p) {
		return
	}
	if len(results) == 0 {
		printers.WriteOutline(b, []printers.Entry{printers.NewEntry("Probes", "<none has answered yet>")})
		return
	}
	b.WriteString("Probes:\n")
	rows := table.New(b)
	rows.Row("  Container", "Kind", "Last", "Times", "Age", "Message")
	for _, r := range results {
		message := printers.OrNone(r.Output)
		if r.Ended {
			message = "before its restart: " + message
		}
		rows.Row("  "+r.Container, r.Kind, r.Outcome, fmt.Sprint(r.InARow), printers.Age(r.At, now), message)
	}
	_ = rows.Flush() // a strings.Builder returns no errors
}

func hasProbes(p *v1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(p.Spec.InitContainers, p.Spec.Containers), func(c v1.Container) bool {
		return c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil
	})
}

// describeVolumes returns the entries of the volumes of a pod.
func describeVolumes(volumes []api.Volume) []printers.Entry {
	if len(volumes) == 0 {
		return []printers.Entry{printers.NewEntry("Volumes", "<none>")}
	}
	e := printers.Entry{Name: "Volumes"}
	for _, v := range volumes {
		below := []printers.Entry{printers.NewEntry("Type", v.Kind), printers.NewEntry("Source", printers.OrNone(v.Source))}
		if v.Path != "" {
			below = append(below, printers.NewEntry("Path", v.Path))
		}
		if v.Capacity != nil {
			size := printable.Bytes(*v.Capacity)
			if v.Used != nil {
				size += fmt.Sprintf(" (%s used)", printable.Bytes(*v.Used))
			}
			below = append(below, printers.NewEntry("Size", size))
		}
		e.Children = append(e.Children, printers.Entry{Name: v.Name, Children: below})
	}
	return []printers.Entry{e}
}

// refusalsOf returns the refusals of a pod.
func refusalsOf(p *v1.Pod, all []pod.Refusal) []pod.Refusal {
	return slices.DeleteFunc(slices.Clone(all), func(r pod.Refusal) bool { return r.Pod != pod.Ref(p) })
}

// describeRefusals returns an entry with the refused manifests of a pod, or none.
func describeRefusals(refused []pod.Refusal) []printers.Entry {
	var lines []string
	for _, r := range refused {
		lines = append(lines, printers.Refusal(r))
	}
	if len(lines) == 0 {
		return nil
	}
	return []printers.Entry{printers.NewListEntry("Refused", lines)}
}
