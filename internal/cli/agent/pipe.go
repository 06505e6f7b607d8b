package agent

import (
	"os"
	"os/signal"
	"syscall"
)

// surviveDeadPipe keeps this process alive when the reader of its output is gone, as in
// 'berth run | tee' after Ctrl-C: a write to a dead pipe fails then, and no longer ends the
// process in the middle of its work. Programs that this process starts are not affected:
// a signal that is caught, other than one that is ignored, is not handed on to them.
func surviveDeadPipe() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}
