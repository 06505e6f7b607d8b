//go:build real

package kit

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// MustMatch fails the test unless a text matches a regular expression.
func MustMatch(t *testing.T, what, text, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(text) {
		t.Errorf("%s: want %s, got:\n%s", what, pattern, text)
	}
}

// TableRow is the row of a name in a table of kubectl's, by the names of the columns.
// They are found by where their heads begin, since some hold spaces.
func TableRow(t *testing.T, table, name string) map[string]string {
	t.Helper()
	head, rows, _ := strings.Cut(table, "\n")
	begins := regexp.MustCompile(`[A-Z]\S*( [A-Z]\S*)*`).FindAllStringIndex(head, -1)
	for line := range strings.Lines(rows) {
		line = strings.TrimRight(line, "\n")
		if !slices.Contains(strings.Fields(line)[:1], name) {
			continue
		}
		row := map[string]string{}
		for i, at := range begins {
			end := len(line)
			if i+1 < len(begins) {
				end = begins[i+1][0]
			}
			row[head[at[0]:at[1]]] = strings.TrimSpace(line[at[0]:end])
		}
		return row
	}
	t.Fatalf("%s has no row:\n%s", name, table)
	return nil
}
