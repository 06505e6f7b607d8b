// Command workload is the program in the containers of the real tests. Its first argument is a
// command:
//
//	serve ADDR                  answer HTTP: /hostname, /env, /file?path=PATH, /stat?path=PATH, /mkdir?path=PATH, and ok elsewhere
//	moody ADDR [AFTER]          answer HTTP with 200 from AFTER on, 500 after /sick, and 200 again after /well
//	ask URL                     end with 0 if the answer is 200
//	exit CODE [after DURATION]  end with that code, at once or later
//	sleep                       sleep until SIGTERM, then end at once with 0
//	stubborn                    sleep, and ignore SIGTERM
//	log N                       write N numbered lines, then sleep
//	count [EVERY]               write a numbered line each 100 ms, or that often
//	stderr TEXT                 write TEXT to stderr, then sleep
//	activity NAME LINGER [LIFE] record start and SIGTERM, and end LINGER after that, or by itself after LIFE
//	cling NAME                  record start and SIGTERM, and ignore SIGTERM
//	usr1 NAME                   record start, SIGTERM and SIGUSR1, and end on SIGUSR1
//	hook NAME DURATION CODE     record start and end in the container's log, then end with that code
//	lastwords TEXT CODE         leave TEXT as the termination message, then end with that code
//	mount PATH                  mount a tmpfs, then sleep
//	quote PATH                  leave the content of a file as the termination message
//	tokens PATH...              log the claims of the tokens in these files, and of each that replaces one
//	versions DIR FILE           read a volume of numbered versions, and record in a file which were seen and what is wrong
//	cat                         copy stdin to stdout
//	terminal                    print the size of the terminal, whenever it changes, and read a line
//	tar ...                     the parts of tar that 'berth cp' and 'kubectl cp' need; also if the program is called tar
//	complain TEXT CODE          write TEXT to stderr, then end with that code
//	write PATH TEXT             write TEXT into a file, then end
//	swell SIZE CODE PATH...     make sparse files of that size, then end with that code
//	link PATH TARGET            make a symbolic link, then end
//	eat N                       use N MiB of memory, then sleep
//	hoard LEFT MOST             use memory until LEFT MiB are left of the machine, but no more than MOST
//	threads N                   start N threads, then sleep
//	spin                        use all of a processor until SIGTERM
//	hostile TRICK ...           do something that could hurt the agent: see hostile.go
//
// All but stubborn, cling, usr1 and hook end at once on SIGTERM, with 0.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	args := os.Args[1:]
	switch filepath.Base(os.Args[0]) {
	case "tar":
		args = append([]string{"tar"}, args...)
	case "containerd", "containerd-shim-runc-v2": // called so by itself
		args = []string{"sleep"}
	}
	code, err := run(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "workload:", err)
		code = 64
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	// The signal is taken in all cases: a PID 1 that does not would never get it.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	switch {
	case is(args, "serve", 1):
		return 0, serve(ctx, args[1])
	case is(args, "moody", 1):
		return 0, moody(ctx, args[1], "0s")
	case is(args, "moody", 2):
		return 0, moody(ctx, args[1], args[2])
	case is(args, "ask", 1):
		return ask(args[1])
	case is(args, "exit", 1):
		return exit(ctx, args[1], "0s")
	case is(args, "exit", 3) && args[2] == "after":
		return exit(ctx, args[1], args[3])
	case is(args, "write", 2):
		return 0, os.WriteFile(args[1], []byte(args[2]), 0o644)
	case len(args) > 3 && args[0] == "swell":
		return swell(args[1], args[2], args[3:])
	case is(args, "link", 2):
		return 0, os.Symlink(args[2], args[1])
	case is(args, "eat", 1):
		return 0, eat(ctx, args[1])
	case is(args, "hoard", 2):
		return 0, hoard(ctx, args[1], args[2])
	case is(args, "threads", 1):
		return 0, threads(ctx, args[1])
	case is(args, "spin", 0):
		return 0, spin(ctx)
	case is(args, "sleep", 0):
	case is(args, "stubborn", 0):
		select {}
	case is(args, "log", 1):
		if err := log(args[1]); err != nil {
			return 0, err
		}
	case is(args, "count", 0):
		return 0, count(ctx, "100ms")
	case is(args, "count", 1):
		return 0, count(ctx, args[1])
	case is(args, "stderr", 1):
		fmt.Fprintln(os.Stderr, args[1])
	case is(args, "activity", 2):
		return 0, recordActivity(ctx, args[1], args[2], "0s")
	case is(args, "activity", 3):
		return 0, recordActivity(ctx, args[1], args[2], args[3])
	case is(args, "cling", 1):
		cling(ctx, args[1])
	case is(args, "usr1", 1):
		awaitUSR1(ctx, args[1])
		return 0, nil
	case is(args, "hook", 3):
		return hook(args[1], args[2], args[3])
	case is(args, "lastwords", 2):
		return leave("/dev/termination-log", args[1], args[2])
	case is(args, "mount", 1):
		if err := syscall.Mount("tmpfs", args[1], "tmpfs", 0, ""); err != nil {
			return 0, err
		}
	case is(args, "quote", 1):
		text, err := os.ReadFile(args[1])
		if err != nil {
			return 0, err
		}
		return leave("/dev/termination-log", string(text), "0")
	case len(args) > 1 && args[0] == "tokens":
		return 0, watchTokens(ctx, args[1:])
	case is(args, "versions", 2):
		return 0, watchVersions(ctx, args[1], args[2])
	case is(args, "cat", 0):
		return 0, echoInput()
	case is(args, "terminal", 0):
		return 0, reportTerminal()
	case len(args) > 0 && args[0] == "tar":
		return 0, archive(args[1:])
	case len(args) > 1 && args[0] == "hostile":
		return hostile(ctx, args[1:])
	case is(args, "complain", 2):
		return leave("/dev/stderr", args[1], args[2])
	default:
		return 0, fmt.Errorf("arguments %q are not understood", args)
	}
	<-ctx.Done()
	return 0, nil
}

func is(args []string, command string, operands int) bool {
	return len(args) == 1+operands && args[0] == command
}

func serve(ctx context.Context, address string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("/hostname", func(w http.ResponseWriter, _ *http.Request) {
		name, err := os.Hostname()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, name)
	})
	mux.HandleFunc("/env", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, strings.Join(slices.Sorted(slices.Values(os.Environ())), "\n"))
	})
	mux.HandleFunc("/mkdir", makeDir)
	mux.HandleFunc("/stat", serveStat)
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		content, err := os.ReadFile(r.FormValue("path"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_, _ = w.Write(content) // the client may be gone
	})
	server := http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func exit(ctx context.Context, code, after string) (int, error) {
	n, err := strconv.Atoi(code)
	if err != nil {
		return 0, err
	}
	wait, err := time.ParseDuration(after)
	if err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, nil
	case <-time.After(wait):
		return n, nil
	}
}

func log(lines string) error {
	n, err := strconv.Atoi(lines)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	for i := 1; i <= n; i++ {
		fmt.Fprintln(out, "line", i)
	}
	return out.Flush()
}

func count(ctx context.Context, every string) error {
	pause, err := time.ParseDuration(every)
	if err != nil {
		return err
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for n := 1; ; n++ {
		fmt.Println("count", n)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
