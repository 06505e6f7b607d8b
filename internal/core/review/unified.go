package review

import (
	"fmt"
	"slices"
	"strings"
)

// shownAround is how many lines are shown around what differs.
const shownAround = 3

// edit is a line of a diff: common (' '), only before ('-') or only after ('+').
type edit struct {
	sign byte
	line string
}

// unified is the difference of two texts as diff -u writes it, or nothing.
func unified(nameBefore, nameAfter, before, after string) string {
	if before == after {
		return ""
	}
	edits := compareLines(slices.Collect(strings.Lines(before)), slices.Collect(strings.Lines(after)))
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", nameBefore, nameAfter)
	lineBefore, lineAfter := 1, 1 // of edits[at]
	for at := 0; at < len(edits); {
		from, to := hunk(edits, at)
		if from == len(edits) {
			break
		}
		for ; at < from; at++ { // common lines
			lineBefore++
			lineAfter++
		}
		olds, news := count(edits[from:to])
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", lineBefore, olds, lineAfter, news)
		for ; at < to; at++ {
			b.WriteByte(edits[at].sign)
			b.WriteString(strings.TrimSuffix(edits[at].line, "\n") + "\n")
		}
		lineBefore, lineAfter = lineBefore+olds, lineAfter+news
	}
	return b.String()
}

// hunk is the next stretch of edits worth showing, from at on.
func hunk(edits []edit, at int) (from, to int) {
	first := at
	for first < len(edits) && edits[first].sign == ' ' {
		first++
	}
	if first == len(edits) {
		return first, first
	}
	last := first
	for i := first; i < len(edits) && i-last <= 2*shownAround; i++ {
		if edits[i].sign != ' ' {
			last = i
		}
	}
	return max(first-shownAround, at), min(last+1+shownAround, len(edits))
}

func count(edits []edit) (olds, news int) {
	for _, e := range edits {
		if e.sign != '+' {
			olds++
		}
		if e.sign != '-' {
			news++
		}
	}
	return olds, news
}

// compareLines finds the longest lines that both have in common, in order. What
// is the same at the beginning and at the end is most of it, and is not searched.
func compareLines(a, b []string) []edit {
	var head, tail []edit
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, edit{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append(tail, edit{' ', a[len(a)-1]})
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	slices.Reverse(tail)
	return slices.Concat(head, middle(a, b), tail)
}

// maxCells bounds the memory of a comparison. Texts that differ in more are shown
// as one that goes and one that comes.
const maxCells = 1 << 22

func middle(a, b []string) []edit {
	var out []edit
	if len(a)*len(b) > maxCells {
		for _, l := range a {
			out = append(out, edit{'-', l})
		}
		for _, l := range b {
			out = append(out, edit{'+', l})
		}
		return out
	}
	// common[i][j] is how many lines a[i:] and b[j:] have in common.
	common := make([][]int32, len(a)+1)
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, edit{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, edit{'-', a[i]})
			i++
		default:
			out = append(out, edit{'+', b[j]})
			j++
		}
	}
	return out
}
