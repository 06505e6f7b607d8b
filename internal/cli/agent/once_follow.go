package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"berth/internal/api"
	"berth/internal/api/client"
	"berth/internal/cli/printers"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// follower watches the one pod of an agent, and prints what its containers write.
type follower struct {
	cmd    *cobra.Command
	client *client.Client
	group  *run.Group

	out         sync.Mutex // held while a line is written
	followed    map[string]bool
	logs        []chan struct{} // each is closed when all of a log is written
	lastPod     *v1.Pod
	lastWaiting string // the reason that printWaiting printed last
}

const (
	agentPollInterval = 20 * time.Millisecond
	// logTimeout is how long waitForLogs waits.
	logTimeout = 5 * time.Second
)

func newFollower(cmd *cobra.Command, root string, group *run.Group) (*follower, error) {
	c, err := client.New(root)
	if err != nil {
		return nil, err
	}
	return &follower{cmd: cmd, client: c, group: group, followed: map[string]bool{}}, nil
}

func (f *follower) close() { f.client.Close() }

// errEnded ends a watch of a pod that has ended.
var errEnded = errors.New("the pod has ended")

// follow returns the pod when it has ended. It fails if the context of the agent or until ends before that.
func (f *follower) follow(agent, until context.Context) (*v1.Pod, error) {
	ctx, cancel := context.WithCancel(until)
	defer cancel()
	defer context.AfterFunc(agent, cancel)()
	for {
		if _, err := f.client.Version(ctx); err == nil {
			break
		}
		select {
		case <-time.After(agentPollInterval):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	err := f.client.Watch(ctx, client.Filter{}, func(e api.Event) error {
		switch {
		case e.Type == api.Refused:
			return errors.New("the agent refuses the manifest: " + printers.Refusal(*e.Refusal))
		case e.Pod != nil:
			return f.observe(e.Pod)
		}
		return nil
	})
	if !errors.Is(err, errEnded) {
		return nil, err
	}
	f.waitForLogs()
	return f.lastPod, nil
}

// waitUntilGone waits until the pod, whose manifest was removed, is gone.
func (f *follower) waitUntilGone(agent context.Context) {
	if f.lastPod == nil {
		return
	}
	grace := time.Duration(pod.Grace(f.lastPod)) * time.Second
	ctx, cancel := context.WithTimeout(agent, grace+onceStopMargin)
	defer cancel()
	there := false
	// After an error, app.Down stops the pod.
	_ = f.client.Watch(ctx, client.Filter{}, func(e api.Event) error {
		switch {
		case e.Type == api.Deleted, e.Type == api.Synced && !there:
			return errEnded
		case e.Pod != nil:
			there = true
			if pod.HasEnded(e.Pod) {
				return errEnded
			}
		}
		return nil
	})
	f.waitForLogs()
}

// waitForLogs waits until the logs of all containers are written, for logTimeout at most.
func (f *follower) waitForLogs() {
	late := time.After(logTimeout)
	for _, done := range f.logs {
		select {
		case <-done:
		case <-late:
			return
		}
	}
}

// observe follows the logs of containers that are new in the pod, and prints why it waits. It returns errEnded for a
// pod that has ended.
func (f *follower) observe(p *v1.Pod) error {
	f.lastPod = p
	for _, statuses := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, s := range statuses {
			for _, id := range containerIDs(s) {
				if !f.followed[id] {
					f.followed[id] = true
					f.followLog(p, s.Name, id)
				}
			}
		}
	}
	f.printWaiting(p)
	if pod.HasEnded(p) {
		return errEnded
	}
	return nil
}

// containerIDs returns the IDs under which a container has logs: that of its last termination as well, since a watch
// may not see a container that ends at once.
func containerIDs(s v1.ContainerStatus) []string {
	var ids []string
	if last := s.LastTerminationState.Terminated; last != nil && last.ContainerID != "" {
		ids = append(ids, last.ContainerID)
	}
	if started := s.State.Running != nil || s.State.Terminated != nil; started && s.ContainerID != "" {
		ids = append(ids, s.ContainerID)
	}
	return ids
}

// printWaiting prints why a container waits, each reason once.
func (f *follower) printWaiting(p *v1.Pod) {
	for _, statuses := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, s := range statuses {
			w := s.State.Waiting
			if w == nil || w.Reason == pod.ReasonPodInitializing || w.Reason == "ContainerCreating" || w.Reason == "" {
				continue
			}
			if text := fmt.Sprintf("container %s waits: %s: %s", s.Name, w.Reason, printers.OneLine(w.Message)); text != f.lastWaiting {
				f.lastWaiting = text
				f.cmd.PrintErrln(text)
			}
			return
		}
	}
}

// followLog prints the log of one container ID from its beginning to its end.
func (f *follower) followLog(p *v1.Pod, container, id string) {
	done := make(chan struct{})
	f.logs = append(f.logs, done)
	out := &printers.LineWriter{W: f.cmd.OutOrStdout(), Mu: &f.out}
	if len(p.Spec.InitContainers)+len(p.Spec.Containers) > 1 {
		out.Prefix = "[" + container + "] "
	}
	f.group.Go("log of "+container, func(ctx context.Context) {
		defer close(done)
		defer out.Flush()
		log, err := f.client.Log(ctx, client.LogRequest{Namespace: p.Namespace, Pod: p.Name, Container: container, ID: id, Follow: true, Tail: -1})
		if err == nil {
			err = errors.Join(log.CopyTo(out), log.Close())
		}
		if err != nil && ctx.Err() == nil {
			f.cmd.PrintErrf("the log of container %s can't be read: %v\n", container, err)
		}
	})
}
