package printers

import (
	"strings"
	"testing"
	"time"
)

type boat struct{ Harbour, Name, Flag string }

func boats() Kind[boat] {
	return Kind[boat]{
		Plural:    "boats",
		Columns:   []Column{{Head: "NAME"}, {Head: "F", In: Narrow}, {Head: "FLAG", In: Wide}},
		Rows:      func(b *boat, _ time.Time) [][]string { return [][]string{{b.Name, b.Flag[:1], b.Flag}} },
		Names:     func(b *boat) []string { return []string{"boat/" + b.Name} },
		Namespace: func(b *boat) string { return b.Harbour },
		Document:  func(b *boat) any { return b.Name },
		List:      func(all []boat) any { return len(all) },
	}
}

func TestPrinter(t *testing.T) {
	ant, bee, far := boat{"x", "ant", "red"}, boat{"x", "bee", "blue"}, boat{"y", "far", "green"}
	for _, c := range []struct {
		name    string
		options Options
		print   [][]boat
		want    string
	}{
		{"a table", Options{}, [][]boat{{ant, bee}}, "NAME|F,ant|r,bee|b"},
		{"a wide table", Options{Output: "wide"}, [][]boat{{ant}}, "NAME|FLAG,ant|red"},
		{"a column of namespaces that is asked for", Options{Namespaces: true}, [][]boat{{ant}}, "NAMESPACE|NAME|F,x|ant|r"},
		{"one for the second namespace", Options{}, [][]boat{{ant}, {far}, {bee}}, "NAME|F,ant|r,NAMESPACE|NAME|F,y|far|g,x|bee|b"},
		{"nothing", Options{}, [][]boat{{}}, ""},
		{"names", Options{Output: "name"}, [][]boat{{ant}, {far}}, "boat/ant,boat/far"},
		{"a list", Options{Output: "json"}, [][]boat{{ant, bee}}, "2"},
		{"an empty list", Options{Output: "json"}, [][]boat{{}}, "0"},
		{"documents", Options{Output: "yaml", Each: true}, [][]boat{{ant}, {bee}}, "ant,---,bee"},
	} {
		var out strings.Builder
		p, err := NewPrinter(&out, boats(), c.options)
		if err != nil {
			t.Fatal(err)
		}
		for _, objects := range c.print {
			if err := p.Print(objects); err != nil {
				t.Fatal(err)
			}
		}
		var lines []string
		for l := range strings.Lines(out.String()) {
			lines = append(lines, strings.Join(strings.Fields(l), "|"))
		}
		if got := strings.Join(lines, ","); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	if _, err := NewPrinter(&strings.Builder{}, boats(), Options{Output: "xml"}); err == nil {
		t.Error("an output that is not known is no error")
	}
}
