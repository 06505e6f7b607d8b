package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// state is how a spec ended.
type state string

const (
	passed  state = "passed"
	failed  state = "failed"
	skipped state = "skipped" // the spec found that it does not apply to this machine
)

// spec is one spec that ran.
type spec struct {
	name  string // its whole text
	group string // the text of its outermost container
	state state
	log   string // what is known of a failure
}

// suiteTimeout is ginkgo's message for a spec that ran when the time of the suite was up.
const suiteTimeout = "A suite timeout occurred"

// suiteReport is the part of ginkgo's report that is read.
type suiteReport struct {
	SpecReports []struct {
		ContainerHierarchyTexts    []string
		LeafNodeType, LeafNodeText string
		State                      string
		RunTime                    time.Duration
		Failure                    struct {
			Message  string
			Location struct {
				FileName       string
				LineNumber     int
				FullStackTrace string
			}
		}
		CapturedGinkgoWriterOutput, CapturedStdOutErr string
	}
}

// readReport reads ginkgo's report. A suite that did not run its specs is an error.
func readReport(file string) ([]spec, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the suite has left no report: %w", err)
	}
	return parseReport(text)
}

func parseReport(text []byte) ([]spec, error) {
	var suites []suiteReport
	if err := json.Unmarshal(text, &suites); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	var ran []spec
	for _, suite := range suites {
		for _, s := range suite.SpecReports {
			if s.LeafNodeType != "It" {
				if s.State == "failed" || s.State == "panicked" {
					return nil, fmt.Errorf("the suite failed before or after its specs, in %s: %s", s.LeafNodeType, s.Failure.Message)
				}
				continue
			}
			if (s.State == "skipped" && s.Failure.Message == "") || s.State == "pending" || s.Failure.Message == suiteTimeout {
				continue // not chosen, or not given the time
			}
			name := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
			one := spec{name: name, group: name, state: failed}
			if len(s.ContainerHierarchyTexts) > 0 {
				one.group = s.ContainerHierarchyTexts[0]
			}
			switch s.State {
			case "passed":
				one.state = passed
			case "skipped":
				one.state = skipped
			default:
				one.log = fmt.Sprintf("%s\n%s after %s at %s:%d\n\n%s\n\n%s\n\n%s\n\n%s\n", name, s.State, s.RunTime,
					s.Failure.Location.FileName, s.Failure.Location.LineNumber, s.Failure.Message,
					s.Failure.Location.FullStackTrace, s.CapturedGinkgoWriterOutput, s.CapturedStdOutErr)
			}
			ran = append(ran, one)
		}
	}
	return ran, nil
}

// notInName matches what is not wanted in the name of a file.
var notInName = regexp.MustCompile(`[^A-Za-z0-9]+`)

// maxFileName is the length to which names of files are cut.
const maxFileName = 120

// writeFailures writes a file for each spec that failed.
func writeFailures(dir string, specs []spec) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, s := range specs {
		if s.state != failed {
			continue
		}
		name := strings.Trim(notInName.ReplaceAllString(s.name, "-"), "-")
		if len(name) > maxFileName {
			name = name[len(name)-maxFileName:] // what differs is at the end
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.log", name, i)), []byte(s.log), 0o644); err != nil {
			return err
		}
	}
	return nil
}
