package printers

import (
	"fmt"
	"io"
	"slices"
	"time"

	"berth/internal/lib/table"
)

// Kind says how objects of one kind are printed in each of ObjectFormats.
type Kind[T any] struct {
	Plural  string // as in "No pods found."
	Columns []Column
	// Rows returns the rows of an object, which mostly are one, with a cell for each of Columns.
	Rows      func(object *T, now time.Time) [][]string
	Names     func(object *T) []string // lines of -o name
	Namespace func(object *T) string   // nil: these objects have no namespace
	Document  func(object *T) any      // an object in full
	List      func(objects []T) any    // all objects in full; nil: there is only one
	Sort      func(objects []T)        // nil: they stay in the order of the agent
}

// Column is a column of a table.
type Column struct {
	Head string
	In   Width
}

// Width says in which of two tables a column is: the usual one, and that of -o wide.
type Width int

const (
	Both Width = iota
	Narrow
	Wide
)

// Options are what the flags of a command say of its output.
type Options struct {
	Output     string        // value of -o
	Namespaces bool          // a table has the column of namespaces, also if there is only one
	Each       bool          // each object is a document, and not an item of a list
	Paint      table.Painter // colours of cells; nil: none
}

// Printer prints objects of one kind. It may be given more objects later, as a watch does.
type Printer[T any] struct {
	w         io.Writer
	kind      Kind[T]
	options   Options
	documents *ObjectPrinter // nil: objects are rows, or names

	namespace string // of the first object
	rows      *table.Writer
}

// NewPrinter returns a printer. It is an error if the output is none of ObjectFormats.
func NewPrinter[T any](w io.Writer, kind Kind[T], o Options) (*Printer[T], error) {
	documents, err := NewObjectPrinter(w, o.Output, ObjectFormats())
	return &Printer[T]{w: w, kind: kind, options: o, documents: documents}, err
}

// Print prints objects.
func (p *Printer[T]) Print(objects []T) error {
	switch {
	case p.documents != nil && !p.options.Each:
		return p.documents.Print(p.kind.List(objects))
	case p.documents != nil:
		for i := range objects {
			if err := p.documents.Print(p.kind.Document(&objects[i])); err != nil {
				return err
			}
		}
		return nil
	case p.options.Output == "name":
		return p.printNames(objects)
	case len(objects) == 0:
		return nil
	}
	return p.printRows(objects, time.Now())
}

func (p *Printer[T]) printNames(objects []T) error {
	for i := range objects {
		for _, name := range p.kind.Names(&objects[i]) {
			if _, err := fmt.Fprintln(p.w, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// printRows prints a table. Its column of namespaces is there if it is asked for, or from the first object on that
// is in another namespace.
func (p *Printer[T]) printRows(objects []T, now time.Time) error {
	for i := range objects {
		namespace := p.namespaceOf(&objects[i])
		if p.namespace == "" {
			p.namespace = namespace
		}
		if namespace != p.namespace && !p.options.Namespaces {
			p.options.Namespaces, p.rows = true, nil // with another header
		}
	}
	if p.rows == nil {
		p.rows = table.Painted(p.w, p.options.Paint)
		var heads []string
		for _, c := range p.kind.Columns {
			heads = append(heads, c.Head)
		}
		p.addRow("NAMESPACE", heads)
	}
	for i := range objects {
		for _, cells := range p.kind.Rows(&objects[i], now) {
			p.addRow(p.namespaceOf(&objects[i]), cells)
		}
	}
	return p.rows.Flush()
}

func (p *Printer[T]) namespaceOf(object *T) string {
	if p.kind.Namespace == nil {
		return ""
	}
	return p.kind.Namespace(object)
}

// addRow adds the cells that are in a table of this width.
func (p *Printer[T]) addRow(namespace string, cells []string) {
	absent := Wide
	if p.options.Output == "wide" {
		absent = Narrow
	}
	var row []string
	for i, cell := range cells {
		if p.kind.Columns[i].In != absent {
			row = append(row, cell)
		}
	}
	if p.options.Namespaces {
		row = slices.Insert(row, 0, namespace)
	}
	p.rows.Row(row...)
}
