// Package control runs the control plane of a Kubernetes cluster for tests and for
// developers: etcd and kube-apiserver, and on demand kube-controller-manager and
// kube-scheduler. They are the real programs (`make cluster-parts`), in a network
// namespace that the caller provides. Keys and certificates are made at start.
//
// Every part can be stopped, killed, paused and started again on its own. All that is
// written is in one folder, and all processes die with the one that started them.
package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"berth/test/lab/process"
	"berth/test/netns"
)

// readyTimeout is how long a part may take to answer.
const readyTimeout = 60 * time.Second

// Config configures a control plane: its programs and its folder.
type Config struct {
	Namespace *netns.Namespace
	Address   string            // where others reach the API server: not loopback, and up in the namespace
	Programs  string            // the folder of the built programs
	Dir       string            // for data, keys and logs: an empty folder, which the caller removes after Close
	Parts     []Part            // beside etcd and the API server
	Flags     map[Part][]string // more flags, given last: they win
}

func (c Config) check() (net.IP, error) {
	address := net.ParseIP(c.Address)
	switch {
	case c.Namespace == nil:
		return nil, errors.New("a network namespace is needed")
	case address == nil || address.IsLoopback() || address.IsUnspecified():
		return nil, fmt.Errorf("address %q: an IP address that nodes can reach is needed", c.Address)
	}
	for _, part := range c.Parts {
		if !slices.Contains(order, part) {
			return nil, fmt.Errorf("part %q: only %v are known", part, order)
		}
	}
	for _, part := range order {
		if _, err := os.Stat(filepath.Join(c.Programs, string(part))); err != nil {
			return nil, fmt.Errorf("%s is not built, run 'make cluster-parts': %w", part, err)
		}
	}
	entries, err := os.ReadDir(c.Dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("folder %s is not empty", c.Dir)
	}
	return address, err
}

// Plane is a running control plane. Its parts are started and stopped by one
// goroutine at a time; clients and kubeconfigs can be had at any time.
type Plane struct {
	config    Config
	authority *authority
	ready     *prober
	processes map[Part]*process.Process // those that are meant to run
}

// Start makes keys, starts the parts and returns once all of them are ready.
func Start(ctx context.Context, c Config) (*Plane, error) {
	address, err := c.check()
	if err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	a, err := newAuthority()
	if err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	p := &Plane{config: c, authority: a, processes: map[Part]*process.Process{}}
	if err := p.prepare(address); err != nil {
		return nil, fmt.Errorf("prepare control plane in %s: %w", c.Dir, err)
	}
	if err := p.startAll(ctx, slices.DeleteFunc(slices.Clone(order), p.unwanted)); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Plane) prepare(address net.IP) error {
	if err := writeKeys(p.config.Dir, p.authority, address); err != nil {
		return err
	}
	for _, part := range []Part{ControllerManager, Scheduler} {
		if _, err := p.Kubeconfig(partUser(part)); err != nil {
			return err
		}
	}
	if _, err := p.Kubeconfig(Admin()); err != nil {
		return err
	}
	config, err := p.RESTConfig(Admin())
	if err != nil {
		return err
	}
	p.ready, err = newProber(config)
	return err
}

func (p *Plane) unwanted(part Part) bool {
	return part != Etcd && part != APIServer && !slices.Contains(p.config.Parts, part)
}

// startAll starts parts in order. The parts after the API server do not need
// one another, so they are waited for together.
func (p *Plane) startAll(ctx context.Context, parts []Part) error {
	for _, part := range parts {
		if err := p.launch(part); err != nil {
			return err
		}
		if part == Etcd || part == APIServer {
			if err := p.Await(ctx, part); err != nil {
				return err
			}
		}
	}
	for _, part := range parts {
		if err := p.Await(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// Start starts a part that does not run, and returns once it is ready.
func (p *Plane) Start(ctx context.Context, part Part) error {
	if err := p.launch(part); err != nil {
		return err
	}
	return p.Await(ctx, part)
}

func (p *Plane) launch(part Part) error {
	if p.Running(part) {
		return fmt.Errorf("start %s: it runs", part)
	}
	running, err := process.Start(p.config.Namespace, p.Log(part), filepath.Join(p.config.Programs, string(part)), p.args(part)...)
	if err != nil {
		return err
	}
	p.processes[part] = running
	return nil
}

// Await returns once a running part is ready.
func (p *Plane) Await(ctx context.Context, part Part) error {
	running, there := p.processes[part]
	if !there {
		return fmt.Errorf("wait for %s: it was not started", part)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		missing := p.ready.check(ctx, p.readyURLs(part))
		if missing == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-running.Ended():
			return fmt.Errorf("%s ended: %s; its log says:\n%s", part, running.State(), p.Tail(part))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; its log says:\n%s", part, missing, p.Tail(part))
		}
	}
}

// Stop asks a part to end, and returns once it has.
func (p *Plane) Stop(part Part) error {
	running, there := p.processes[part]
	if !there {
		return nil
	}
	delete(p.processes, part)
	return running.Stop()
}

// Kill ends a part without giving it a chance to do anything about it.
func (p *Plane) Kill(part Part) {
	if running, there := p.processes[part]; there {
		delete(p.processes, part)
		running.Kill()
	}
}

// Pause freezes a part: its connections stay, and nothing is answered.
func (p *Plane) Pause(part Part) error {
	if !p.Running(part) {
		return fmt.Errorf("pause %s: it does not run", part)
	}
	return p.processes[part].Pause()
}

// Resume undoes Pause.
func (p *Plane) Resume(part Part) error {
	if !p.Running(part) {
		return fmt.Errorf("resume %s: it does not run", part)
	}
	return p.processes[part].Resume()
}

// Running reports whether a part was started and has not ended.
func (p *Plane) Running(part Part) bool {
	running, there := p.processes[part]
	return there && running.Running()
}

// PID is the process of a part, or zero if it does not run.
func (p *Plane) PID(part Part) int {
	if !p.Running(part) {
		return 0
	}
	return p.processes[part].PID()
}

// Log is the file that a part writes to.
func (p *Plane) Log(part Part) string { return filepath.Join(p.config.Dir, string(part)+".log") }

// Tail is the end of a part's log, for messages.
func (p *Plane) Tail(part Part) string { return process.Tail(p.Log(part), 4<<10) }

// Close kills everything. It fails if a part had ended by itself before.
func (p *Plane) Close() error {
	var crashed []error
	for _, part := range slices.Backward(order) {
		running, there := p.processes[part]
		if there && !running.Running() {
			crashed = append(crashed, fmt.Errorf("%s had ended by itself: %s", part, running.State()))
		}
		p.Kill(part)
	}
	p.ready.close()
	return errors.Join(crashed...)
}
