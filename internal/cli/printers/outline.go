package printers

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
)

// Entry is a name in an outline with its text, and the entries below it.
type Entry struct {
	Name     string
	Lines    []string
	Children []Entry
}

// NewEntry returns an entry with a text of one or more lines.
func NewEntry(name, text string) Entry {
	var lines []string
	for l := range strings.Lines(text) {
		lines = append(lines, strings.Map(printableRune, strings.TrimRight(l, "\r\n")))
	}
	return Entry{Name: name, Lines: lines}
}

// NewListEntry returns an entry with several texts, each in a line, or <none>.
func NewListEntry(name string, texts []string) Entry {
	return NewEntry(name, OrNone(strings.Join(texts, "\n")))
}

// printableRune replaces control characters, which could be commands to a terminal.
func printableRune(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}

// WriteOutline writes entries, with their texts aligned.
func WriteOutline(b *strings.Builder, entries []Entry) {
	writeEntries(b, entries, 0, textColumn(entries, 0))
}

const (
	outlineIndent = 2
	outlineGap    = 2 // at least, between a name and its text
)

// textColumn returns the column in which the texts of entries begin. Entries below an entry with a
// text are aligned with it; those below a mere heading have a column of their own.
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

// maxAnnotation is how much of an annotation is shown: some hold whole manifests.
const maxAnnotation = 140

// ResourceEntries returns an entry with an entry for each resource below it, or none for an empty list.
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

// Pairs returns a line for each key and value of a map, sorted by key.
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

// LongTime formats a time with its date, as 'kubectl describe' does.
func LongTime(t time.Time) string { return t.Format(time.RFC1123Z) }
