// Command berth keeps the containers of this machine in the state that pod
// manifests describe, and shows what became of them.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/klog/v2"
)

// version is set when berth is built.
var version = "dev"

func main() {
	if code, asked := unmountAsked(os.Args); asked {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	klog.SetSlogLogger(slog.New(complaints{os.Stderr})) // 'berth run' has a better one
	root := newRootCommand(version)
	args := os.Args[1:]
	if filepath.Base(os.Args[0]) == "kubelet" {
		args = append([]string{"run"}, args...)
	}
	root.SetArgs(kindApart(args))
	lastWords := &logOutput{to: os.Stderr} // nobody may read it, and the agent has to end all the same
	code := exitCode(ctx, root, lastWords)
	lastWords.flush(flushPatience)
	stop()
	os.Exit(code)
}
