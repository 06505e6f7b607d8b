package pods

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/cli/printers"
	"berth/internal/lib/pod"
)

// podItem is a pod that 'get pods' prints.
type podItem struct {
	v1.Pod
	deleted bool // in a watch
}

// kind says how pods are printed.
func kind() printers.Kind[podItem] {
	return printers.Kind[podItem]{
		Plural: "pods",
		Columns: []printers.Column{
			{Head: "NAME"},
			{Head: "READY"},
			{Head: "STATUS"},
			{Head: "RESTARTS"},
			{Head: "AGE"},
			{Head: "IP", In: printers.Wide},
			{Head: "NODE", In: printers.Wide},
			{Head: "MESSAGE", In: printers.Wide},
		},
		Rows:      func(p *podItem, now time.Time) [][]string { return [][]string{row(&p.Pod, p.deleted, now)} },
		Names:     func(p *podItem) []string { return []string{"pod/" + p.Name} },
		Namespace: func(p *podItem) string { return p.Namespace },
		Document:  func(p *podItem) any { return p.Pod },
		List: func(pods []podItem) any {
			list := v1.PodList{Items: make([]v1.Pod, len(pods))}
			list.APIVersion, list.Kind = "v1", "PodList"
			for i := range pods {
				list.Items[i] = pods[i].Pod
			}
			return list
		},
		Sort: func(pods []podItem) {
			slices.SortStableFunc(pods, func(a, b podItem) int {
				return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
			})
		},
	}
}

// row returns the cells of a pod in a wide table.
func row(p *v1.Pod, deleted bool, now time.Time) []string {
	s := summarize(p)
	if deleted {
		s.status = "Deleted"
	}
	restarts := fmt.Sprint(s.restarts)
	if s.restarts > 0 && !s.lastRestart.IsZero() {
		restarts += " (" + printers.Age(s.lastRestart, now) + " ago)"
	}
	return []string{
		p.Name, fmt.Sprintf("%d/%d", s.ready, s.total), s.status, restarts, printers.Age(pod.Created(p), now),
		printers.OrNone(p.Status.PodIP), printers.OrNone(p.Spec.NodeName), printers.OrNone(message(p)),
	}
}

// maxMessageWidth is how much of a message 'get pods' shows. 'describe' shows all of it.
const maxMessageWidth = 100

// truncateMiddle shortens a text in its middle: an error begins with the operation and ends with its cause.
func truncateMiddle(text string, most int) string {
	const gap = "..."
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	end := (most - len(gap)) / 2
	return string(runes[:most-len(gap)-end]) + gap + string(runes[len(runes)-end:])
}

// message returns the message of a pod's status, or that of the first container that waits.
func message(p *v1.Pod) string {
	text := p.Status.Message
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			if w := list[i].State.Waiting; text == "" && w != nil {
				text = w.Message
			}
		}
	}
	text = printers.OneLine(text)
	return truncateMiddle(text, maxMessageWidth)
}
