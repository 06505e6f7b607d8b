// Command berth keeps the containers of this machine in the state that pod
// manifests describe, and shows what became of them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"berth/internal/app"
	"berth/internal/cli"
)

// version is set when berth is built.
var version = "dev"

func main() {
	if code, asked := app.UnmountRequested(os.Args); asked {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, version, os.Args, os.Stderr)
	stop()
	os.Exit(code)
}
