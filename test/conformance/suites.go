package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// suite is one of upstream's suites: the specs of it that are run, and how.
type suite struct {
	program    string // its file, among what make builds for this command
	filter     string // the labels of its specs, in ginkgo's words
	exclusions []exclusion
	yardstick  string // its file, beside the source of this command
	// describeMachine says on what kind of machine a run was that left results.
	describeMachine func(results string) (string, error)
	// run runs the suite, and leaves its reports and logs in the folder of results. That specs fail is no error.
	run func(ctx context.Context, r suiteRun, out io.Writer) error
	// clear removes what is left of a run that was killed.
	clear func() error
}

// exclusion is specs that are left out: their texts contain text.
type exclusion struct{ text, reason string }

// nodeSpecs are the labels of the node suite's specs that each kubelet has to pass, and that run beside others.
const nodeSpecs = "NodeConformance && !Serial && !Slow && !Flaky"

// suites are the known ones, by their names.
var suites = map[string]suite{
	"node": {
		program:         "e2e_node.test",
		filter:          nodeSpecs,
		yardstick:       "yardstick.txt",
		describeMachine: describeHost,
		run:             runNodeSuite,
		clear:           clearNodeSuite,
	},
	// The same specs on an emulated machine with systemd and cgroup v2, which is slow: a selection is to be chosen.
	"emulated": {
		program:         "e2e_node.test",
		filter:          nodeSpecs,
		yardstick:       "yardstick-emulated.txt",
		describeMachine: describeGuest,
		run:             runEmulatedSuite,
		clear:           clearEmulatedSuite,
	},
	// Each cluster has to pass these specs, and a kubelet is what most of them are about. Specs that are Serial run
	// after the others, one at a time.
	"cluster": {
		program: "e2e.test",
		filter:  "Conformance && (sig-node || sig-apps || sig-cli || sig-storage) && !Flaky",
		exclusions: []exclusion{
			{"Guestbook application", "its frontend finds the others by the names of services: there is no DNS, and no kube-proxy"},
		},
		yardstick:       "yardstick-cluster.txt",
		describeMachine: describeHost,
		run:             runClusterSuite,
		clear:           clearClusterSuite,
	},
}

// findSuite returns a suite by its name.
func findSuite(name string) (suite, error) {
	found, ok := suites[name]
	if !ok {
		return suite{}, fmt.Errorf("suite %q is not known: use %s", name, strings.Join(slices.Sorted(maps.Keys(suites)), " or "))
	}
	return found, nil
}

// options are ginkgo's options that choose the specs of a suite.
func (s suite) options() []string {
	options := []string{"--label-filter=" + s.filter}
	for _, e := range s.exclusions {
		options = append(options, "--skip="+regexp.QuoteMeta(e.text))
	}
	return options
}

// suiteRun is one run of a suite.
type suiteRun struct {
	results  string   // the folder of reports and logs
	options  []string // of ginkgo
	programs programs
}
