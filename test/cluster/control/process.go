package control

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/cluster/netns"
)

// stopLimit is how long a part may take to end when asked. The API server finishes
// the requests that it has first.
const stopLimit = 20 * time.Second

// process is a running part.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once it is gone, and cmd.ProcessState is set
}

// launch starts a program inside the namespace. It dies with us, however we die: the
// kernel ties it to the thread that started it, and that thread waits for it.
func launch(ns *netns.Namespace, log *logFile, program string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		defer close(p.ended)
		defer log.close()
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

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// pause returns once all threads stand still, which takes a moment.
func (p *process) pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pause %s: %w", p.cmd.Path, err)
	}
	for {
		err := unix.Waitid(unix.P_PID, p.pid(), nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// stop asks the process to end. One that does not is killed, which is an error.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	_ = p.resume()                            // it may be paused
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopLimit):
		p.kill()
		return fmt.Errorf("%s did not end within %s of being asked, and was killed", p.cmd.Path, stopLimit)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.ended
}
