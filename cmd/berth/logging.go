package main

import (
	"flag"
	"fmt"
	"io"
	stdlog "log" //nolint:depguard // to be turned off: nothing of ours uses it
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// logging is where the agent says what it does, and how much of it.
type logging struct {
	*slog.Logger
	level  *slog.LevelVar
	output *logOutput
}

// newLogging writes to stderr. From verbosity 4 on it tells what developers want
// to know, as people expect of a kubelet.
func newLogging(verbosity int) (*logging, error) {
	l := loggingTo(os.Stderr)
	klog.SetSlogLogger(l.Logger) // the libraries of Kubernetes log there
	// net/http says there what servers of others do wrong, as often as they do it.
	stdlog.SetFlags(0)
	stdlog.SetOutput(slog.NewLogLogger(l.Handler(), slog.LevelDebug).Writer())
	return l, l.setVerbosity(verbosity)
}

func loggingTo(w io.Writer) *logging {
	l := &logging{level: &slog.LevelVar{}, output: &logOutput{to: w}}
	l.Logger = slog.New(slog.NewTextHandler(l.output, &slog.HandlerOptions{Level: l.level}))
	return l
}

const (
	verbosityDebug = 4
	// What libraries say at verbosity 5 comes to slog with the level -5, and so on.
	levelPerVerbosity = -1
)

// setVerbosity changes how much is said, from now on.
func (l *logging) setVerbosity(verbosity int) error {
	var libraries flag.FlagSet
	klog.InitFlags(&libraries)
	if err := libraries.Set("v", strconv.Itoa(verbosity)); err != nil {
		return fmt.Errorf("set the verbosity of libraries to %d: %w", verbosity, err)
	}
	level := slog.LevelInfo
	if verbosity >= verbosityDebug {
		level = slog.Level(levelPerVerbosity * verbosity)
	}
	l.level.Set(level)
	return nil
}

// writePatience is how long a line may take to be written.
const writePatience = 10 * time.Second

// logOutput remembers whether lines can be written. Its one user is a handler, which
// writes one at a time.
type logOutput struct {
	to io.Writer

	mu    sync.Mutex
	began time.Time // of the write that goes on; zero if there is none
	err   error     // of the last one
}

// Write implements io.Writer.
func (o *logOutput) Write(line []byte) (int, error) {
	o.mu.Lock()
	o.began = time.Now()
	o.mu.Unlock()
	n, err := o.to.Write(line)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.began, o.err = time.Time{}, err
	return n, err
}

// check tells why lines can't be written: nobody would see it in the log.
func (o *logOutput) check(now time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if took := now.Sub(o.began); !o.began.IsZero() && took > writePatience {
		return fmt.Errorf("a line of the log could not be written for %s", took.Round(time.Second))
	}
	if o.err != nil {
		return fmt.Errorf("write the log: %w", o.err)
	}
	return nil
}
