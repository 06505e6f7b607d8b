// Package logging makes the logger of a process. Its output never blocks those who log: a terminal
// that was stopped, or a pipe that is not read, must not stop the agent.
package logging

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	stdlog "log" //nolint:depguard // to be turned off: nothing of ours uses it
	"log/slog"
	"strconv"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Logger is a slog.Logger whose verbosity can be changed, and whose output never blocks.
type Logger struct {
	*slog.Logger
	level  *slog.LevelVar
	Output *Output
}

// New returns a logger that writes to w, and has libraries write there, too. From verbosity 4 on it logs what developers want
// to know, as people expect of a kubelet.
func New(w io.Writer, verbosity int) (*Logger, error) { return To(w).install(verbosity) }

// NewJSON is New with lines that are JSON objects. The time is in ts, in milliseconds, as in the logs of Kubernetes.
func NewJSON(w io.Writer, verbosity int) (*Logger, error) {
	l := &Logger{level: &slog.LevelVar{}, Output: NewOutput(w)}
	l.Output.json = true
	l.Logger = slog.New(jsonHandler(l.Output, l.level))
	return l.install(verbosity)
}

func jsonHandler(w io.Writer, level slog.Leveler) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Float64("ts", float64(a.Value.Time().UnixMicro())/1000)
		}
		return a
	}})
}

// install has libraries write to the logger.
func (l *Logger) install(verbosity int) (*Logger, error) {
	klog.SetSlogLogger(l.Logger) // the libraries of Kubernetes log there
	// net/http says there what servers of others do wrong, as often as they do it.
	stdlog.SetFlags(0)
	stdlog.SetOutput(slog.NewLogLogger(l.Handler(), slog.LevelDebug).Writer())
	return l, l.SetVerbosity(verbosity)
}

// To returns a logger that writes to w.
func To(w io.Writer) *Logger {
	l := &Logger{level: &slog.LevelVar{}, Output: NewOutput(w)}
	l.Logger = slog.New(slog.NewTextHandler(l.Output, &slog.HandlerOptions{Level: l.level}))
	return l
}

const (
	verbosityDebug = 4
	// What libraries say at verbosity 5 comes to slog with the level -5, and so on.
	levelPerVerbosity = -1
)

// ErrorsOnly leaves out everything below the level of errors.
func (l *Logger) ErrorsOnly() { l.level.Set(slog.LevelError) }

// SetVerbosity changes how much is said, from now on.
func (l *Logger) SetVerbosity(verbosity int) error {
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

const (
	// writeTimeout is how long the write of a line may take before Check fails.
	writeTimeout = 10 * time.Second
	// waitTimeout is how long Write waits until the line is written. It is nearly always
	// written at once, and then nothing is lost if the agent ends just after. After a
	// Write that waited in vain, no Write waits for noWaitPeriod.
	waitTimeout  = 50 * time.Millisecond
	noWaitPeriod = time.Minute
	// FlushTimeout is how long the end of a command waits for lines that are not written.
	FlushTimeout = 2 * time.Second
	// maxQueued is how many bytes of lines wait to be written. More are dropped.
	maxQueued = 1 << 20
)

// NewOutput returns an Output that writes to w.
func NewOutput(w io.Writer) *Output { return &Output{to: w} }

// Output writes lines in the order in which they come, and never blocks the caller for long:
// a terminal that was stopped, or a pipe that is not read, must not stop the agent. Lines that
// do not fit into the queue are dropped and counted, and the count is written in their place.
type Output struct {
	to   io.Writer
	json bool // lines are JSON objects

	mu          sync.Mutex
	queue       []queuedLine  // the first one is being written
	size        int           // of all lines in the queue
	writing     chan struct{} // closed when the queue is empty again; nil: it is
	noWaitUntil time.Time     // until then, Write does not wait
	began       time.Time     // of the write that goes on; zero if there is none
	err         error         // of the last one
}

// queuedLine is a line of the log, or the place of those that were dropped.
type queuedLine struct {
	text    []byte
	dropped int
	written chan struct{} // closed when it is
}

// Write implements io.Writer. What becomes of the line is for Check.
func (o *Output) Write(line []byte) (int, error) {
	written, wait := o.enqueue(line)
	if !wait {
		return len(line), nil
	}
	timeout := time.NewTimer(waitTimeout)
	defer timeout.Stop()
	select {
	case <-written:
	case <-timeout.C:
		o.mu.Lock()
		o.noWaitUntil = time.Now().Add(noWaitPeriod)
		o.mu.Unlock()
	}
	return len(line), nil
}

// enqueue puts a line into the queue, or counts it if there is no room, and reports whether
// it is worth while to wait for it.
func (o *Output) enqueue(line []byte) (written <-chan struct{}, wait bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.size+len(line) > maxQueued {
		if last := len(o.queue) - 1; last > 0 && o.queue[last].dropped > 0 { // the first is being written
			o.queue[last].dropped++
		} else {
			o.queue = append(o.queue, queuedLine{dropped: 1, written: make(chan struct{})})
		}
		return nil, false
	}
	one := queuedLine{text: bytes.Clone(line), written: make(chan struct{})}
	o.queue = append(o.queue, one)
	o.size += len(line)
	if o.writing == nil {
		o.writing = make(chan struct{})
		go o.drain() // ends with the queue
	}
	return one.written, len(o.queue) == 1 && time.Now().After(o.noWaitUntil)
}

// drain writes what is in the queue.
func (o *Output) drain() {
	for {
		o.mu.Lock()
		if len(o.queue) == 0 {
			close(o.writing)
			o.writing = nil
			o.mu.Unlock()
			return
		}
		line := o.queue[0]
		text := line.text
		if line.dropped > 0 {
			text = o.droppedLine(line.dropped)
		}
		o.began = time.Now()
		o.mu.Unlock()

		_, err := o.to.Write(text)

		o.mu.Lock()
		o.queue, o.size = o.queue[1:], o.size-len(line.text)
		o.began, o.err = time.Time{}, err
		o.mu.Unlock()
		close(line.written)
	}
}

// droppedLine says how many lines are missing.
func (o *Output) droppedLine(count int) []byte {
	var text bytes.Buffer
	var handler slog.Handler = slog.NewTextHandler(&text, nil)
	if o.json {
		handler = jsonHandler(&text, slog.LevelInfo)
	}
	slog.New(handler).Warn("the log could not be written for a while: lines were dropped", "dropped", count)
	return text.Bytes()
}

// Flush waits until all is written, but no longer than timeout.
func (o *Output) Flush(timeout time.Duration) {
	o.mu.Lock()
	writing := o.writing
	o.mu.Unlock()
	if writing == nil {
		return
	}
	select {
	case <-writing:
	case <-time.After(timeout):
	}
}

// Check returns why lines can't be written, which can't be logged.
func (o *Output) Check(now time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if took := now.Sub(o.began); !o.began.IsZero() && took > writeTimeout {
		return fmt.Errorf("a line of the log could not be written for %s", took.Round(time.Second))
	}
	if o.err != nil {
		return fmt.Errorf("write the log: %w", o.err)
	}
	return nil
}
