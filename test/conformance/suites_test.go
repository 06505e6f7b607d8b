package main

import (
	"slices"
	"strings"
	"testing"
)

func TestASuiteIsFoundByItsName(t *testing.T) {
	found, err := findSuite("cluster")
	if err != nil || found.program != "e2e.test" {
		t.Errorf("the program of the cluster suite is %q, %v; want e2e.test", found.program, err)
	}
	if _, err := findSuite("clusters"); err == nil || !strings.Contains(err.Error(), "cluster or emulated or node") {
		t.Errorf("a suite that is not known: %v; want the names of those that are", err)
	}
}

func TestExclusionsAreTextsAndNotExpressions(t *testing.T) {
	s := suite{filter: "Fast", exclusions: []exclusion{{"Pods [Slow]", "they are slow"}, {"DNS", "there is none"}}}
	want := []string{"--label-filter=Fast", `--skip=Pods \[Slow\]`, "--skip=DNS"}
	if got := s.options(); !slices.Equal(got, want) {
		t.Errorf("the options are %q, want %q", got, want)
	}
}

func TestEachExclusionHasAReason(t *testing.T) {
	for name, s := range suites {
		for _, e := range s.exclusions {
			if e.text == "" || e.reason == "" {
				t.Errorf("suite %s leaves out %q because of %q", name, e.text, e.reason)
			}
		}
	}
}

func TestSuitesHaveYardsticksOfTheirOwn(t *testing.T) {
	files := map[string]string{}
	for name, s := range suites {
		if other, taken := files[s.yardstick]; taken {
			t.Errorf("suites %s and %s have the same yardstick", name, other)
		}
		files[s.yardstick] = name
	}
}
