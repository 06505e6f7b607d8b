// Command conformance puts a kubelet through the node suite of Kubernetes: `make conformance`. The suite brings its own
// etcd and API server, starts a program called kubelet and runs specs against it, on a machine that is made
// of namespaces. It needs root.
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
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"berth/test/leftovers"
	"berth/test/registry"
)

// specs are those that each kubelet has to pass, and that run beside others.
const specs = "NodeConformance && !Serial && !Slow && !Flaky"

// settings are what the command line says.
type settings struct {
	bin, source string
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
	if err := s.check(); err != nil {
		return err
	}
	yardstick, err := readYardstick(s.yardstick())
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.runSuite(ctx); err != nil {
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
		comment, err := describeRun(s.bin, began)
		if err != nil {
			return err
		}
		yardstick = yardstick.record(report, comment)
		if err := yardstick.write(s.yardstick()); err != nil {
			return err
		}
	}
	summary := summarize(report, yardstick)
	fmt.Printf("\n%s as the kubelet, %s, logs in %s\n\n%s", s.kubelet, time.Since(began).Round(time.Second), s.results(), summary)
	return summary.verdict()
}

func (s *settings) check() error {
	if os.Geteuid() != 0 {
		return errors.New("root is needed, since containers and network namespaces are made")
	}
	if s.kubelet != "berth" && s.kubelet != "upstream" {
		return fmt.Errorf("kubelet %q is not known: use berth or upstream", s.kubelet)
	}
	if s.record && s.kubelet != "upstream" {
		return errors.New("the yardstick is what upstream's kubelet passes")
	}
	var err error
	s.bin, err = filepath.Abs(s.bin)
	return err
}

// program is the kubelet's, below the folder of what make builds.
func (s *settings) program() string {
	if s.kubelet == "upstream" {
		return "conformance/upstream/kubelet"
	}
	return "berth"
}

// results is the folder of reports and logs, which each run empties first.
func (s *settings) results() string { return filepath.Join(s.bin, "conformance", "results", s.kubelet) }

func (s *settings) suite() string { return filepath.Join(s.bin, "conformance", "e2e_node.test") }

func (s *settings) yardstick() string { return filepath.Join(s.source, "yardstick.txt") }

// ginkgoOptions choose the specs.
func (s *settings) ginkgoOptions() ([]string, error) {
	options := []string{
		"--label-filter=" + specs, "--procs=" + strconv.Itoa(s.procs), "--timeout=" + s.timeout.String(), "--no-color", "--silence-skips",
	}
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

// runSuite runs the suite, and leaves its reports and logs in the folder of results. That specs fail is no error.
func (s *settings) runSuite(ctx context.Context) (err error) {
	options, err := s.ginkgoOptions()
	if err != nil {
		return err
	}
	if err := errors.Join(leftovers.Remove(name), os.RemoveAll(s.results()), os.MkdirAll(s.results(), 0o755)); err != nil {
		return err
	}
	store := registry.New()
	images, err := pushImages(store, s.bin, s.suite())
	if err != nil {
		return err
	}
	sandbox := slices.IndexFunc(images, func(image string) bool { return path.Base(repositoryOf(image)) == "pause" })
	if sandbox < 0 {
		return errors.New("the suite names no image for sandboxes")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	network, err := newNetwork()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leftovers.Remove(name)) }()
	defer network.Close()
	if err := serve(ctx, network, store); err != nil {
		return err
	}
	console, err := os.Create(filepath.Join(s.results(), "console.log"))
	if err != nil {
		return err
	}
	defer console.Close()
	m, err := start(network, io.MultiWriter(os.Stdout, console), filepath.Join(s.source, "machine.sh"),
		append([]string{name, s.bin, s.results(), address, images[sandbox], s.program()}, options...)...)
	if err != nil {
		return err
	}
	defer m.kill()
	if err := m.pull(ctx, images); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.results(), imagesMark), nil, 0o644); err != nil {
		return err
	}
	select {
	case <-m.ended:
		return nil // whether specs failed is in the report
	case <-ctx.Done():
		return errors.New("interrupted")
	}
}
