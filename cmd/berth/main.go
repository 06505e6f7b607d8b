// Command berth keeps the containers of this machine in the state that pod
// manifests describe, and shows what became of them.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// version is set when berth is built.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	root := newRootCommand(version)
	if filepath.Base(os.Args[0]) == "kubelet" {
		root.SetArgs(append([]string{"run"}, os.Args[1:]...))
	}
	code := exitCode(ctx, root, os.Stderr)
	stop()
	os.Exit(code)
}
