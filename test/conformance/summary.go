package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// counts are the specs of a group, by how they ended.
type counts struct {
	passed, failed, skipped int
	yardstick               int // passed by upstream's kubelet, of those that ran
}

func (c *counts) add(s spec, before state) {
	switch s.state {
	case passed:
		c.passed++
	case failed:
		c.failed++
	case skipped:
		c.skipped++
	}
	if before == passed {
		c.yardstick++
	}
}

// summary is the outcome of a run against the yardstick.
type summary struct {
	groups map[string]*counts
	total  counts
	worse  []string // specs that upstream's kubelet passes, and this one does not
	both   []string // specs that fail here with upstream's kubelet, too
	better []string // specs that fail with upstream's kubelet only
	fresh  []string // specs that failed, and of which the yardstick knows nothing
}

func summarize(ran []spec, y yardstick) summary {
	s := summary{groups: map[string]*counts{}}
	for _, one := range ran {
		before := y.states[one.name]
		if s.groups[one.group] == nil {
			s.groups[one.group] = &counts{}
		}
		s.groups[one.group].add(one, before)
		s.total.add(one, before)
		switch {
		case before == passed && one.state != passed:
			s.worse = append(s.worse, one.name)
		case before == failed && one.state == failed:
			s.both = append(s.both, one.name)
		case before == failed && one.state == passed:
			s.better = append(s.better, one.name)
		case before == "" && one.state == failed:
			s.fresh = append(s.fresh, one.name)
		}
	}
	return s
}

// String is a table of the groups, and lists of the specs that differ.
func (s summary) String() string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "group\tpassed\tfailed\tskipped\tyardstick")
	row := func(group string, c counts) {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\n", group, c.passed, c.failed, c.skipped, c.yardstick)
	}
	for _, group := range slices.Sorted(maps.Keys(s.groups)) {
		row(group, *s.groups[group])
	}
	row("all", s.total)
	_ = table.Flush() // into memory
	list := func(title string, names []string) {
		if len(names) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s:\n", title)
		for _, name := range slices.Sorted(slices.Values(names)) {
			fmt.Fprintln(&b, "  "+name)
		}
	}
	list("not passed, but by upstream's kubelet", s.worse)
	list("failed, and not in the yardstick", s.fresh)
	list("failed, as with upstream's kubelet", s.both)
	list("passed, unlike with upstream's kubelet", s.better)
	return b.String()
}

// verdict is an error if no spec ran, or if one failed that upstream's kubelet does not fail.
func (s summary) verdict() error {
	if s.total.passed+s.total.failed == 0 {
		return errors.New("no spec ran")
	}
	if n := len(s.worse) + len(s.fresh); n > 0 {
		return fmt.Errorf("%d specs are not as with upstream's kubelet", n)
	}
	return nil
}
