// Package nearest finds the known name that a misspelt one was probably meant to be.
package nearest

import (
	"fmt"
	"slices"
	"strings"
)

// To returns the known name with the fewest typing errors between it and name, in which case does not
// count. It is empty if none is close.
func To(name string, known []string) string {
	lower := []rune(strings.ToLower(name))
	best, fewest := "", min(max(2, len(lower)/3), len(lower)-1)+1 // not every letter may be wrong
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := distance(lower, []rune(strings.ToLower(k))); d < fewest {
			best, fewest = k, d
		}
	}
	return best
}

// Hint returns "; did you mean NAME?" for the end of an error, or nothing if no known name is close. prefix is put
// before the name, as in --NAME.
func Hint(name, prefix string, known []string) string {
	near := To(name, known)
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, near)
}

// distance counts the runes to insert, remove or replace, and the neighbours to swap, that make b out of a.
func distance(a, b []rune) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replace := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			rows[i][j] = min(replace, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
