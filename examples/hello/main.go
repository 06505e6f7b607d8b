// Command hello is what runs in the pods of the examples: a small web server by
// default, or something that counts, or a job that ends. It stops at once when
// it is asked to.
//
// The server greets with GREETING if that is set, adds the content of
// /etc/hello/note if there is such a file, and wants PASSWORD if that is set.
package main

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()

	what := "serve"
	if len(args) > 0 {
		what = args[0]
	}
	switch what {
	case "serve":
		return serve(ctx)
	case "count":
		count(ctx, 0)
		return nil
	case "job":
		if !count(ctx, 5) {
			return errors.New("stopped before the end")
		}
		fmt.Println("done")
		return nil
	default:
		return fmt.Errorf("%q is not known: use serve, count or job", what)
	}
}

// serve answers every request with a line, until ctx ends.
func serve(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	greeting := cmp.Or(os.Getenv("GREETING"), "Hello")
	password := os.Getenv("PASSWORD")
	server := http.Server{
		Addr:              ":8080",
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, given, _ := r.BasicAuth(); password != "" && subtle.ConstantTimeCompare([]byte(given), []byte(password)) == 0 {
				w.Header().Set("WWW-Authenticate", "Basic")
				http.Error(w, "Who are you?", http.StatusUnauthorized)
				return
			}
			fmt.Fprintf(w, "%s from %s!\n", greeting, host)
			// Read each time: the file changes when its ConfigMap does.
			if note, err := os.ReadFile("/etc/hello/note"); err == nil {
				fmt.Fprint(w, string(note))
			}
		}),
	}
	context.AfterFunc(ctx, func() { server.Close() })

	fmt.Println("listening on", server.Addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// count prints a number each second: up to last, or for ever if that is 0. It
// reports whether it got to the end before ctx did.
func count(ctx context.Context, last int) bool {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 1; ; n++ {
		fmt.Println("count", n)
		if n == last {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}
