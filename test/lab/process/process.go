// Package process runs programs inside of network namespaces. They die with the
// process that started them, however that dies, and their logs stay small.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/netns"
)

// stopTimeout is how long a program may take to end when asked. An API server
// finishes the requests that it has first.
const stopTimeout = 20 * time.Second

// lateWords is how long a log is kept open for children of a program that ended.
const lateWords = time.Second

// Process is a program that was started.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once it is gone, and cmd.ProcessState is set
}

// Start starts a program inside the namespace, and appends what it prints to the
// file log. The kernel ties it to the thread that started it, and that thread waits
// for it. Keys pressed on our terminal do not reach it.
func Start(ns *netns.Namespace, log, program string, args ...string) (*Process, error) {
	out, err := openLog(log, maxLog)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p.cmd.WaitDelay = lateWords
	started := make(chan error, 1)
	go func() {
		defer close(p.ended)
		defer out.close()
		err := ns.Inside(func() error {
			if err := p.cmd.Start(); err != nil {
				return err
			}
			started <- nil
			_ = p.cmd.Wait() // how it ended is in the process state
			return nil
		})
		if err != nil {
			started <- fmt.Errorf("start %s: %w", program, err)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Ended is closed once the process is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// State returns the exit state of a process that has ended.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// Running reports whether the process is there.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// PID is the ID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Pause freezes the process. It returns once all threads stand still, which takes a
// moment.
func (p *Process) Pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pause %s: %w", p.cmd.Path, err)
	}
	for {
		err := unix.Waitid(unix.P_PID, p.PID(), nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Resume undoes Pause.
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Stop asks the process to end, and returns once it has. One that does not is
// killed, which is an error.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	_ = p.Resume()                            // it may be paused
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopTimeout):
		p.Kill()
		return fmt.Errorf("%s did not end within %s of being asked, and was killed", p.cmd.Path, stopTimeout)
	}
}

// Kill ends the process without giving it a chance to do anything about it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.ended
}
