package pods

import (
	"fmt"
	"io"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/cli/printers"
	"berth/internal/lib/pod"
	"berth/internal/lib/table"
)

// podPrinter prints pods in the way that -o asks for. It may be given more
// pods later, as a watch does.
type podPrinter interface {
	// print prints pods, and a row of a pod that is gone says so.
	print(pods []v1.Pod, gone bool) error
}

// newPodPrinter returns the printer for an output. With namespaces, a table
// always has their column. With each, pods are printed one by one and not as a
// list, where that makes a difference. paint colours the table, and may be nil.
func newPodPrinter(w io.Writer, output string, namespaces, each bool, paint table.Painter) (podPrinter, error) {
	documents, err := printers.NewObjectPrinter(w, output, printers.ObjectFormats())
	switch {
	case err != nil:
		return nil, err
	case documents != nil:
		return &podDocuments{out: documents, each: each}, nil
	case output == "name":
		return namePrinter{w: w}, nil
	}
	return &tablePrinter{w: w, wide: output == "wide", namespaces: namespaces, paint: paint}, nil
}

// tablePrinter prints one row per pod. The column of namespaces is there if it
// is asked for, or as soon as there is more than one.
type tablePrinter struct {
	w          io.Writer
	wide       bool
	namespaces bool
	paint      table.Painter

	seen string // the namespace of the first pod
	rows *table.Writer
}

func (t *tablePrinter) print(pods []v1.Pod, gone bool) error {
	for _, p := range pods {
		if t.seen == "" {
			t.seen = p.Namespace
		}
		if p.Namespace != t.seen && !t.namespaces {
			t.namespaces, t.rows = true, nil // with another header
		}
	}
	if t.rows == nil && len(pods) > 0 {
		t.rows = table.Painted(t.w, t.paint)
		t.rows.Row(t.header()...)
	}
	now := time.Now()
	for i := range pods {
		t.rows.Row(t.row(&pods[i], now, gone)...)
	}
	if t.rows == nil {
		return nil
	}
	return t.rows.Flush()
}

func (t *tablePrinter) header() []string {
	cells := []string{"NAME", "READY", "STATUS", "RESTARTS", "AGE"}
	if t.namespaces {
		cells = slices.Insert(cells, 0, "NAMESPACE")
	}
	if t.wide {
		cells = append(cells, "IP", "NODE", "MESSAGE")
	}
	return cells
}

func (t *tablePrinter) row(p *v1.Pod, now time.Time, gone bool) []string {
	s := summarize(p)
	if gone {
		s.status = "Deleted"
	}
	restarts := fmt.Sprint(s.restarts)
	if s.restarts > 0 && !s.lastRestart.IsZero() {
		restarts += " (" + printers.Age(s.lastRestart, now) + " ago)"
	}
	cells := []string{p.Name, fmt.Sprintf("%d/%d", s.ready, s.total), s.status, restarts, printers.Age(pod.Created(p), now)}
	if t.namespaces {
		cells = slices.Insert(cells, 0, p.Namespace)
	}
	if t.wide {
		cells = append(cells, printers.OrNone(p.Status.PodIP), printers.OrNone(p.Spec.NodeName), printers.OrNone(message(p)))
	}
	return cells
}

// podDocuments prints pods in full: each as a document, or all as a list.
type podDocuments struct {
	out  *printers.ObjectPrinter
	each bool
}

func (d *podDocuments) print(pods []v1.Pod, _ bool) error {
	if !d.each {
		list := v1.PodList{Items: pods}
		list.APIVersion, list.Kind = "v1", "PodList"
		return d.out.Print(list)
	}
	for _, p := range pods {
		if err := d.out.Print(p); err != nil {
			return err
		}
	}
	return nil
}

// namePrinter prints names that the commands take as arguments.
type namePrinter struct{ w io.Writer }

func (n namePrinter) print(pods []v1.Pod, _ bool) error {
	for _, p := range pods {
		if _, err := fmt.Fprintln(n.w, "pod/"+p.Name); err != nil {
			return err
		}
	}
	return nil
}

// maxMessage keeps a row on a line of its own. 'describe' shows all of it.
const maxMessage = 100

// cutMiddle shortens a text. What it is about stands at its beginning, and what came of
// it, such as the cause of an error, at its end.
func cutMiddle(text string, most int) string {
	const gap = "..."
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	end := (most - len(gap)) / 2
	return string(runes[:most-len(gap)-end]) + gap + string(runes[len(runes)-end:])
}

// message is what there is to say of a pod that is not as it should be: where its
// termination stands, why it ended, or why a container waits.
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
	return cutMiddle(text, maxMessage)
}
