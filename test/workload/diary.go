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

// The tests read from the log of a container what happened to it, and when. Each
// line is the name of who writes, a word, and the time in nanoseconds.
//
//	start   it runs
//	term    it got SIGTERM
//	usr1    it got SIGUSR1
//	alive   it has not been killed yet
//	end     it ends by itself

// beat is the time between two signs of life.
const beat = 20 * time.Millisecond

func note(out io.Writer, name, what string) {
	fmt.Fprintln(out, name, what, time.Now().UnixNano())
}

// keepDiary notes how it starts, is told to end, and ends: a while after
// SIGTERM, or by itself once it has lived for long enough. Zero is for ever.
func keepDiary(ctx context.Context, name, linger, life string) error {
	rest, err := time.ParseDuration(linger)
	if err != nil {
		return err
	}
	most, err := time.ParseDuration(life)
	if err != nil {
		return err
	}
	var over <-chan time.Time
	if most > 0 {
		over = time.After(most)
	}
	note(os.Stdout, name, "start")
	select {
	case <-ctx.Done():
		note(os.Stdout, name, "term")
		time.Sleep(rest)
	case <-over:
	}
	note(os.Stdout, name, "end")
	return nil
}

// cling notes that it is alive until it is killed, whatever SIGTERM says.
func cling(ctx context.Context, name string) {
	note(os.Stdout, name, "start")
	told := ctx.Done()
	for {
		select {
		case <-told:
			note(os.Stdout, name, "term")
			told = nil
		case <-time.After(beat):
			note(os.Stdout, name, "alive")
		}
	}
}

// awaitUSR1 ends on SIGUSR1, and not on SIGTERM.
func awaitUSR1(ctx context.Context, name string) {
	usr1 := make(chan os.Signal, 1)
	signal.Notify(usr1, syscall.SIGUSR1)
	note(os.Stdout, name, "start")
	told := ctx.Done()
	for {
		select {
		case <-told:
			note(os.Stdout, name, "term")
			told = nil
		case <-usr1:
			note(os.Stdout, name, "usr1")
			note(os.Stdout, name, "end")
			return
		}
	}
}

// hook is for commands that are run beside the container's own: it writes into
// the container's log, and takes its time.
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
	note(log, name, "start")
	time.Sleep(wait)
	note(log, name, "end")
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
