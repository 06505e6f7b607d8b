package printers

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
)

// Entry is a line of an outline: a name, what there is to say of it, and what
// belongs to it.
type Entry struct {
	Name     string
	Lines    []string
	Children []Entry
}

// NewEntry is an entry with a text, of which each line is one in the outline.
func NewEntry(name, text string) Entry {
	var lines []string
	for l := range strings.Lines(text) {
		lines = append(lines, strings.Map(printableRune, strings.TrimRight(l, "\r\n")))
	}
	return Entry{Name: name, Lines: lines}
}

// NewListEntry is an entry with several texts, one below the other.
func NewListEntry(name string, texts []string) Entry {
	return NewEntry(name, OrNone(strings.Join(texts, "\n")))
}

// printableRune keeps a text from doing anything to a terminal.
func printableRune(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}

// WriteOutline writes entries, one below the other and their texts aligned.
func WriteOutline(b *strings.Builder, entries []Entry) {
	writeEntries(b, entries, 0, textColumn(entries, 0))
}

const (
	outlineIndent = 2
	outlineGap    = 2 // the least space between a name and its text
)

// textColumn is where the texts of entries begin. What belongs to an entry with a
// text lines up with it; what belongs to a mere heading has its own column.
func textColumn(entries []Entry, indent int) int {
	at := 0
	for _, e := range entries {
		if len(e.Lines) == 0 {
			continue
		}
		at = max(at, indent+utf8.RuneCountInString(e.Name)+1+outlineGap, textColumn(e.Children, indent+outlineIndent))
	}
	return at
}

func writeEntries(b *strings.Builder, entries []Entry, indent, at int) {
	for _, e := range entries {
		head := strings.Repeat(" ", indent) + e.Name + ":"
		b.WriteString(head)
		for i, l := range e.Lines {
			if i > 0 {
				head = ""
			}
			b.WriteString(strings.Repeat(" ", at-utf8.RuneCountInString(head)) + l)
			if i < len(e.Lines)-1 {
				b.WriteByte('\n')
			}
		}
		b.WriteByte('\n')
		below := at
		if len(e.Lines) == 0 {
			below = textColumn(e.Children, indent+outlineIndent)
		}
		writeEntries(b, e.Children, indent+outlineIndent, below)
	}
}

// maxAnnotation is how much is shown of an annotation: some hold whole manifests.
const maxAnnotation = 140

func ResourceEntries(name string, list v1.ResourceList) []Entry {
	if len(list) == 0 {
		return nil
	}
	e := Entry{Name: name}
	for resource, amount := range list {
		e.Children = append(e.Children, NewEntry(string(resource), amount.String()))
	}
	slices.SortFunc(e.Children, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return []Entry{e}
}

// Pairs are the keys and values of a map, each in a line, in the order of the
// keys.
func Pairs(of map[string]string, between string) []string {
	var lines []string
	for key, value := range of {
		value = OneLine(value)
		if runes := []rune(value); len(runes) > maxAnnotation {
			value = string(runes[:maxAnnotation]) + "..."
		}
		lines = append(lines, key+between+value)
	}
	slices.Sort(lines)
	return lines
}

func LongTime(t time.Time) string { return t.Format(time.RFC1123Z) }
