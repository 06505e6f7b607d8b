package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// A container records its activity in its log, where tests read it (kit.ActivityLogs). Each line is
// a name, an event, and the time in nanoseconds. The events:
//
//	start   the process runs
//	term    it got SIGTERM
//	usr1    it got SIGUSR1
//	alive   it has not been killed yet
//	end     it ends by itself

// beat is the interval of the event alive.
const beat = 20 * time.Millisecond

func record(out io.Writer, name, what string) {
	fmt.Fprintln(out, name, what, time.Now().UnixNano())
}

// recordActivity records start, SIGTERM and end. It ends after the time linger since SIGTERM, or by
// itself after the time life. A life of 0 has no end.
func recordActivity(ctx context.Context, name, linger, life string) error {
	lingers, err := time.ParseDuration(linger)
	if err != nil {
		return err
	}
	lives, err := time.ParseDuration(life)
	if err != nil {
		return err
	}
	var over <-chan time.Time
	if lives > 0 {
		over = time.After(lives)
	}
	record(os.Stdout, name, "start")
	select {
	case <-ctx.Done():
		record(os.Stdout, name, "term")
		time.Sleep(lingers)
	case <-over:
	}
	record(os.Stdout, name, "end")
	return nil
}

// cling records that it is alive until it is killed. It ignores SIGTERM.
func cling(ctx context.Context, name string) {
	record(os.Stdout, name, "start")
	term := ctx.Done()
	for {
		select {
		case <-term:
			record(os.Stdout, name, "term")
			term = nil
		case <-time.After(beat):
			record(os.Stdout, name, "alive")
		}
	}
}

// awaitUSR1 ends on SIGUSR1, and not on SIGTERM.
func awaitUSR1(ctx context.Context, name string) {
	usr1 := make(chan os.Signal, 1)
	signal.Notify(usr1, syscall.SIGUSR1)
	record(os.Stdout, name, "start")
	term := ctx.Done()
	for {
		select {
		case <-term:
			record(os.Stdout, name, "term")
			term = nil
		case <-usr1:
			record(os.Stdout, name, "usr1")
			record(os.Stdout, name, "end")
			return
		}
	}
}

// hook is the command of hooks: it records start and end in the container's log, and takes the given
// time.
func hook(name, takes, code string) (int, error) {
	n, err := strconv.Atoi(code)
	if err != nil {
		return 0, err
	}
	wait, err := time.ParseDuration(takes)
	if err != nil {
		return 0, err
	}
	log, err := os.OpenFile("/proc/1/fd/1", os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = log.Close() }()
	record(log, name, "start")
	time.Sleep(wait)
	record(log, name, "end")
	return n, nil
}

// leave writes text to a file and ends with a code.
func leave(file, text, code string) (int, error) {
	n, err := strconv.Atoi(code)
	if err != nil {
		return 0, err
	}
	out, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	if _, err := io.WriteString(out, text); err != nil {
		return 0, err
	}
	return n, out.Close()
}
