package cri

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
)

// Pod reads the sandboxes and containers of one pod, with their statuses.
func (c *Client) Pod(ctx context.Context, uid pod.UID) (pod.Observed, error) {
	have, err := c.list(ctx, map[string]string{pod.LabelPodUID: string(uid)}, false)
	if err != nil {
		return pod.Observed{}, err
	}
	o := have[uid]
	if o == nil {
		return pod.Observed{UID: uid}, nil
	}
	if s := o.Sandbox(); s != nil {
		if s.IPs, err = c.sandboxIPs(ctx, s.ID); err != nil {
			return pod.Observed{}, err
		}
	}
	kept := o.Containers[:0]
	for _, container := range o.Containers {
		switch err := c.addStatus(ctx, &container); {
		case IsNotFound(err): // removed since it was listed
		case err != nil:
			return pod.Observed{}, err
		default:
			kept = append(kept, container)
		}
	}
	o.Containers = kept
	return *o, nil
}

// List reads the sandboxes and containers of this root directory and their states. It leaves
// out fields that take one call each to read: IPs, times, exit codes.
func (c *Client) List(ctx context.Context) (map[pod.UID]*pod.Observed, error) {
	return c.list(ctx, nil, false)
}

// ListAll is List for the pods of all root directories that use the runtime.
func (c *Client) ListAll(ctx context.Context) (map[pod.UID]*pod.Observed, error) {
	return c.list(ctx, nil, true)
}

func (c *Client) list(ctx context.Context, labels map[string]string, ofAllRoots bool) (map[pod.UID]*pod.Observed, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	sandboxes, err := c.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: labels},
	})
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	containers, err := c.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: labels},
	})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}

	if !ofAllRoots {
		sandboxes.Items, containers.Containers, err = c.keepOwn(ctx, sandboxes.Items, containers.Containers, labels == nil)
		if err != nil {
			return nil, err
		}
	}
	out := map[pod.UID]*pod.Observed{}
	of := func(labels map[string]string) *pod.Observed {
		uid := pod.UID(labels[pod.LabelPodUID])
		if uid == "" {
			return nil // not made by a node agent
		}
		if out[uid] == nil {
			out[uid] = &pod.Observed{UID: uid, Name: labels[pod.LabelPodName], Namespace: labels[pod.LabelPodNamespace]}
		}
		return out[uid]
	}
	for _, s := range sandboxes.Items {
		if o := of(s.Labels); o != nil {
			o.Sandboxes = append(o.Sandboxes, sandbox(s))
		}
	}
	for _, item := range containers.Containers {
		if o := of(item.Labels); o != nil {
			o.Containers = append(o.Containers, container(item))
		}
	}
	for _, o := range out {
		slices.SortFunc(o.Sandboxes, newestSandbox)
		slices.SortFunc(o.Containers, newestContainer)
	}
	return out, nil
}

// newestSandbox and newestContainer sort the newest first. They compare the attempt
// before the time: on a machine without a battery the clock may have been behind when
// the later one was made.
func newestSandbox(a, b pod.Sandbox) int {
	return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
}

func newestContainer(a, b pod.Container) int {
	return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
}

func sandbox(s *runtimeapi.PodSandbox) pod.Sandbox {
	out := pod.Sandbox{
		ID:        s.Id,
		Attempt:   s.GetMetadata().GetAttempt(),
		CreatedAt: timeOf(s.CreatedAt),
		Hash:      s.Annotations[pod.AnnotationSpecHash],
	}
	if s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
		out.State = pod.SandboxReady
	}
	if seen, err := time.Parse(time.RFC3339Nano, s.Annotations[pod.AnnotationSeen]); err == nil {
		out.FirstSeen = seen
	}
	return out
}

func container(c *runtimeapi.Container) pod.Container {
	out := pod.Container{
		ID:           c.Id,
		Name:         c.Labels[pod.LabelContainerName],
		SandboxID:    c.PodSandboxId,
		State:        containerState(c.State),
		Image:        c.GetImage().GetUserSpecifiedImage(),
		ImageRef:     c.ImageRef,
		CreatedAt:    timeOf(c.CreatedAt),
		Hash:         c.Annotations[pod.AnnotationSpecHash],
		Round:        int(number(c.Annotations[pod.AnnotationRound], 0)),
		Attempt:      int32(c.GetMetadata().GetAttempt()),
		RestartCount: int32(number(c.Annotations[pod.AnnotationRestartCount], int64(c.GetMetadata().GetAttempt()))),
		Grace:        number(c.Annotations[pod.AnnotationGrace], pod.DefaultGrace),
	}
	if d, err := time.ParseDuration(c.Annotations[pod.AnnotationBackoff]); err == nil {
		out.Backoff = d
	}
	if out.Image == "" {
		out.Image = c.GetImage().GetImage()
	}
	return out
}

func (c *Client) addStatus(ctx context.Context, to *pod.Container) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: to.ID})
	if err != nil {
		return fmt.Errorf("read container %s: %w", to.ID, err)
	}
	s := r.GetStatus()
	to.State = containerState(s.GetState())
	to.StartedAt = timeOf(s.GetStartedAt())
	to.FinishedAt = timeOf(s.GetFinishedAt())
	to.ExitCode = s.GetExitCode()
	to.Reason = s.GetReason()
	to.Message = s.GetMessage()
	to.LogPath = s.GetLogPath()
	for _, m := range s.GetMounts() {
		if m.GetRecursiveReadOnly() {
			to.ReadOnlyBelow = append(to.ReadOnlyBelow, m.GetContainerPath())
		}
	}
	if ref := s.GetImageRef(); ref != "" {
		to.ImageRef = ref
	}
	if startBrokenOff(s) {
		to.State = pod.ContainerCreated
	}
	return nil
}

// startBrokenOff reports whether a container counts as dead only because the call that was to
// start it ended in the middle: the agent was killed, for example, or the runtime stood still
// until the time of the call was over. The container never ran, so it counts as created and
// not started.
func startBrokenOff(s *runtimeapi.ContainerStatus) bool {
	if s.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || s.GetStartedAt() != 0 || s.GetReason() != "StartError" {
		return false
	}
	return strings.HasSuffix(s.GetMessage(), context.Canceled.Error()) || strings.HasSuffix(s.GetMessage(), context.DeadlineExceeded.Error())
}

func (c *Client) sandboxIPs(ctx context.Context, id string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	if IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read sandbox %s: %w", id, err)
	}
	network := r.GetStatus().GetNetwork()
	if network.GetIp() == "" {
		return nil, nil
	}
	ips := []string{network.GetIp()}
	for _, more := range network.GetAdditionalIps() {
		ips = append(ips, more.GetIp())
	}
	return ips, nil
}

// Event is a hint that a sandbox or container of a pod changed at that time. A runtime may
// send events that are minutes old, or the same event twice.
type Event struct {
	UID pod.UID
	At  time.Time
}

// Events calls each for every event until the stream breaks or ctx ends. opened is called
// once the request was sent: a runtime that does not implement events answers after that.
func (c *Client) Events(ctx context.Context, opened func(), each func(Event)) error {
	stream, err := c.runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return fmt.Errorf("subscribe to container events: %w", err)
	}
	opened()
	for {
		e, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("receive container events: %w", err)
		}
		if uid := eventUID(e); uid != "" {
			each(Event{UID: uid, At: timeOf(e.CreatedAt)})
		}
	}
}

func eventUID(e *runtimeapi.ContainerEventResponse) pod.UID {
	if uid := e.GetPodSandboxStatus().GetLabels()[pod.LabelPodUID]; uid != "" {
		return pod.UID(uid)
	}
	for _, c := range e.GetContainersStatuses() {
		if uid := c.GetLabels()[pod.LabelPodUID]; uid != "" {
			return pod.UID(uid)
		}
	}
	return ""
}

func containerState(s runtimeapi.ContainerState) pod.ContainerState {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return pod.ContainerCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return pod.ContainerRunning
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return pod.ContainerExited
	default:
		return pod.ContainerUnknown
	}
}

func timeOf(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

func number(s string, otherwise int64) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}
