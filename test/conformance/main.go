// Command conformance puts a kubelet through a suite of Kubernetes: `make conformance`. It needs root.
//
// The node suite brings its own etcd and API server, starts a program called kubelet and runs specs against it, on a
// machine that is made of namespaces. The cluster suite runs specs against a cluster of two such machines.
//
// The kubelet is berth, or upstream's own one: what upstream's passes here is the yardstick for berth.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// settings are what the command line says.
type settings struct {
	bin, source string
	suite       string
	kubelet     string
	focus, skip string
	selection   string
	procs       int
	timeout     time.Duration
	record      bool
}

func main() {
	var s settings
	flag.StringVar(&s.bin, "bin", "bin", "folder of what make builds")
	flag.StringVar(&s.source, "source", "test/conformance", "folder of this program's source")
	flag.StringVar(&s.suite, "suite", "node", "node, cluster or emulated")
	flag.StringVar(&s.kubelet, "kubelet", "berth", "berth or upstream")
	flag.StringVar(&s.focus, "focus", "", "regular expression: run only specs whose text matches")
	flag.StringVar(&s.skip, "skip", "", "regular expression: leave out specs whose text matches")
	flag.StringVar(&s.selection, "selection", "", "file with the texts of the specs to run, one in a line")
	flag.IntVar(&s.procs, "procs", 8, "how many specs run at the same time")
	flag.DurationVar(&s.timeout, "timeout", 3*time.Hour, "time after which the suite is ended; specs that run then fail, and the others are left out")
	flag.BoolVar(&s.record, "record", false, "write the results into the yardstick; only for upstream's kubelet")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	chosen, err := s.check()
	if err != nil {
		return err
	}
	yardstickFile := filepath.Join(s.source, chosen.yardstick)
	yardstick, err := readYardstick(yardstickFile)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.runSuite(ctx, chosen); err != nil {
		return err
	}
	report, err := readReport(filepath.Join(s.results(), "report.json"))
	if err != nil {
		return err
	}
	if err := writeFailures(filepath.Join(s.results(), "failures"), report); err != nil {
		return err
	}
	if s.record {
		machine, err := chosen.describeMachine(s.results())
		if err != nil {
			return err
		}
		comment, err := describeRun(s.bin, machine, began)
		if err != nil {
			return err
		}
		yardstick = yardstick.record(report, comment)
		if err := yardstick.write(yardstickFile); err != nil {
			return err
		}
	}
	summary := summarize(report, yardstick)
	fmt.Printf("\n%s as the kubelet, %s suite, %s, logs in %s\n\n%s", s.kubelet, s.suite, time.Since(began).Round(time.Second), s.results(), summary)
	return summary.verdict()
}

// check returns the suite to run, if the settings make sense.
func (s *settings) check() (suite, error) {
	if os.Geteuid() != 0 {
		return suite{}, errors.New("root is needed, since containers and network namespaces are made")
	}
	if s.kubelet != "berth" && s.kubelet != "upstream" {
		return suite{}, fmt.Errorf("kubelet %q is not known: use berth or upstream", s.kubelet)
	}
	if s.record && s.kubelet != "upstream" {
		return suite{}, errors.New("the yardstick is what upstream's kubelet passes")
	}
	var err error
	if s.bin, err = filepath.Abs(s.bin); err != nil {
		return suite{}, err
	}
	return findSuite(s.suite)
}

// program is the kubelet's, below the folder of what make builds.
func (s *settings) program() string {
	if s.kubelet == "upstream" {
		return "conformance/upstream/kubelet"
	}
	return "berth"
}

// results is the folder of reports and logs, which each run empties first.
func (s *settings) results() string {
	return filepath.Join(s.bin, "conformance", "results", s.suite, s.kubelet)
}

// ginkgoOptions choose specs among those of the suite, and say how they run.
func (s *settings) ginkgoOptions() ([]string, error) {
	options := []string{"--procs=" + strconv.Itoa(s.procs), "--timeout=" + s.timeout.String(), "--no-color", "--silence-skips"}
	if s.focus != "" {
		options = append(options, "--focus="+s.focus)
	}
	if s.skip != "" {
		options = append(options, "--skip="+s.skip)
	}
	if s.selection != "" {
		focus, err := readSelection(s.selection)
		if err != nil {
			return nil, err
		}
		options = append(options, "--focus="+focus)
	}
	return options, nil
}

// runSuite runs a suite with images of our own. What it prints is also in the results.
func (s *settings) runSuite(ctx context.Context, chosen suite) (err error) {
	options, err := s.ginkgoOptions()
	if err != nil {
		return err
	}
	r := suiteRun{
		results: s.results(), options: append(chosen.options(), options...),
		programs: programs{script: filepath.Join(s.source, "machine.sh"), bin: s.bin, kubelet: s.program()},
	}
	if r.programs.images, err = pushImages(s.bin, filepath.Join(s.bin, "conformance", chosen.program)); err != nil {
		return err
	}
	if err := errors.Join(chosen.clear(), os.RemoveAll(r.results), os.MkdirAll(r.results, 0o755)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, chosen.clear()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	console, err := os.Create(filepath.Join(r.results, "console.log"))
	if err != nil {
		return err
	}
	defer console.Close()
	out := io.MultiWriter(os.Stdout, console)
	for _, e := range chosen.exclusions {
		fmt.Fprintf(out, "left out: %q, because %s\n", e.text, e.reason)
	}
	return chosen.run(ctx, r, out)
}
