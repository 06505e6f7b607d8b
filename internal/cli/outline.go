package cli

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
)

// entry is a line of an outline: a name, what there is to say of it, and what
// belongs to it.
type entry struct {
	name  string
	lines []string
	below []entry
}

// say is an entry with a text, of which each line is one in the outline.
func say(name, text string) entry {
	var lines []string
	for l := range strings.Lines(text) {
		lines = append(lines, strings.Map(visible, strings.TrimRight(l, "\r\n")))
	}
	return entry{name: name, lines: lines}
}

// sayAll is an entry with several texts, one below the other.
func sayAll(name string, texts []string) entry {
	return say(name, orNone(strings.Join(texts, "\n")))
}

// visible keeps a text from doing anything to a terminal.
func visible(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}

// writeOutline writes entries, one below the other and their texts aligned.
func writeOutline(b *strings.Builder, entries []entry) {
	writeEntries(b, entries, 0, column(entries, 0))
}

const (
	outlineIndent = 2
	outlineGap    = 2 // the least space between a name and its text
)

// column is where the texts of entries begin. What belongs to an entry with a
// text lines up with it; what belongs to a mere heading has its own column.
func column(entries []entry, indent int) int {
	at := 0
	for _, e := range entries {
		if len(e.lines) == 0 {
			continue
		}
		at = max(at, indent+utf8.RuneCountInString(e.name)+1+outlineGap, column(e.below, indent+outlineIndent))
	}
	return at
}

func writeEntries(b *strings.Builder, entries []entry, indent, at int) {
	for _, e := range entries {
		head := strings.Repeat(" ", indent) + e.name + ":"
		b.WriteString(head)
		for i, l := range e.lines {
			if i > 0 {
				head = ""
			}
			b.WriteString(strings.Repeat(" ", at-utf8.RuneCountInString(head)) + l)
			if i < len(e.lines)-1 {
				b.WriteByte('\n')
			}
		}
		b.WriteByte('\n')
		below := at
		if len(e.lines) == 0 {
			below = column(e.below, indent+outlineIndent)
		}
		writeEntries(b, e.below, indent+outlineIndent, below)
	}
}

// maxAnnotation is how much is shown of an annotation: some hold whole manifests.
const maxAnnotation = 140

func describeResources(name string, list v1.ResourceList) []entry {
	if len(list) == 0 {
		return nil
	}
	e := entry{name: name}
	for resource, amount := range list {
		e.below = append(e.below, say(string(resource), amount.String()))
	}
	slices.SortFunc(e.below, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return []entry{e}
}

// pairs are the keys and values of a map, each in a line, in the order of the
// keys.
func pairs(of map[string]string, between string) []string {
	var lines []string
	for key, value := range of {
		value = oneLine(value)
		if runes := []rune(value); len(runes) > maxAnnotation {
			value = string(runes[:maxAnnotation]) + "..."
		}
		lines = append(lines, key+between+value)
	}
	slices.Sort(lines)
	return lines
}

func longTime(t time.Time) string { return t.Format(time.RFC1123Z) }
