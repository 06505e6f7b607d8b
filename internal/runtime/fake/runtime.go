// Package fake has a container runtime in memory, for tests, which can be made slow, silent or
// failing, and fakes of the interfaces of core that tests of several packages need.
package fake

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/lib/pod"
	"berth/internal/runtime/cri"
	"berth/internal/runtime/keyring"
	"berth/internal/runtime/render"
)

// Runtime is a container runtime in memory.
type Runtime struct {
	mu         sync.Mutex
	ids        int
	sandboxes  map[string]*sandboxRecord
	containers map[string]*containerRecord
	pods       map[pod.UID]*podRecords // the same records by pod: a call about one pod costs the same with 500 pods
	images     map[string]bool
	failures   map[string]error
	delays     map[string]time.Duration
	holds      map[string]chan struct{}
	waiting    int // calls that are held
	calls      map[string]int
	listeners  map[chan cri.Event]struct{}
	stops      []Stop
	mute       bool
	loseStart  bool

	sandboxCalls, maxSandboxCalls int // calls of RunSandbox under way, and the most ever
}

type sandboxRecord struct {
	pod.Sandbox
	uid             pod.UID
	name, namespace string
	logs            string
}

type containerRecord struct {
	pod.Container
	uid pod.UID
}

// podRecords are the sandboxes and containers of one pod, by id.
type podRecords struct {
	sandboxes  map[string]*sandboxRecord
	containers map[string]*containerRecord
}

// New returns a runtime that has the given images.
func New(images ...string) *Runtime {
	r := &Runtime{
		sandboxes:  map[string]*sandboxRecord{},
		containers: map[string]*containerRecord{},
		pods:       map[pod.UID]*podRecords{},
		images:     map[string]bool{},
		failures:   map[string]error{},
		delays:     map[string]time.Duration{},
		holds:      map[string]chan struct{}{},
		calls:      map[string]int{},
		listeners:  map[chan cri.Event]struct{}{},
	}
	for _, image := range images {
		r.images[image] = true
	}
	return r
}

// Fail makes every call of that name return err, which may be nil again.
func (r *Runtime) Fail(call string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures[call] = err
}

// Delay makes every call of that name take that long.
func (r *Runtime) Delay(call string, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delays[call] = d
}

// Hold makes every new call of that name hang until release is called, or the context of the call
// ends.
func (r *Runtime) Hold(call string) (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := make(chan struct{})
	r.holds[call] = held
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.holds, call)
		close(held)
	})
}

func (r *Runtime) addWaiting(more int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting += more
}

// Waiting returns how many calls are held just now.
func (r *Runtime) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting
}

// Mute stops the events, as if the stream hung.
func (r *Runtime) Mute() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mute = true
}

// LoseStart makes the next call of StartContainer start the container and return pod.ErrNoAnswer.
func (r *Runtime) LoseStart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loseStart = true
}

// AddImage makes an image present.
func (r *Runtime) AddImage(image string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.images[image] = true
}

// Calls returns how often a call was made.
func (r *Runtime) Calls(call string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[call]
}

// Stop is a call of StopContainer for a running container.
type Stop struct {
	Container string
	Grace     time.Duration
	At        time.Time
}

// Stops returns the stops so far, in order.
func (r *Runtime) Stops() []Stop {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.stops)
}

// MaxConcurrentRunSandbox returns the largest number of concurrent calls of RunSandbox so far.
func (r *Runtime) MaxConcurrentRunSandbox() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.maxSandboxCalls
}

// Exit ends the newest running container of that name in a pod.
func (r *Runtime) Exit(uid pod.UID, name string, code int32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if records := r.pods[uid]; records != nil {
		for _, c := range records.containers {
			if c.Name == name && c.State == pod.ContainerRunning {
				r.end(c, code)
				return nil
			}
		}
	}
	return fmt.Errorf("no container %s runs in pod %s", name, uid)
}

func (r *Runtime) end(c *containerRecord, code int32) {
	c.State, c.ExitCode, c.FinishedAt = pod.ContainerExited, code, time.Now()
	r.sendEvent(c.uid)
}

func (r *Runtime) sendEvent(uid pod.UID) {
	if r.mute {
		return
	}
	for l := range r.listeners {
		select {
		case l <- cri.Event{UID: uid, At: time.Now()}:
		default: // a runtime drops events, too
		}
	}
}

// enter counts a call, waits while it is held and for its delay, and returns its failure.
func (r *Runtime) enter(ctx context.Context, call string) error {
	r.mu.Lock()
	r.calls[call]++
	err, delay, held := r.failures[call], r.delays[call], r.holds[call]
	r.mu.Unlock()
	if held != nil {
		r.addWaiting(1)
		defer r.addWaiting(-1)
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

func (r *Runtime) id(prefix string) string {
	r.ids++
	return prefix + strconv.Itoa(r.ids)
}

// Ready implements execute.Runtime.
func (r *Runtime) Ready(ctx context.Context) error { return r.enter(ctx, "Ready") }

// RunSandbox implements execute.Runtime.
func (r *Runtime) RunSandbox(ctx context.Context, config *render.SandboxConfig, _ string) (string, error) {
	r.mu.Lock()
	r.sandboxCalls++
	r.maxSandboxCalls = max(r.maxSandboxCalls, r.sandboxCalls)
	r.mu.Unlock()
	err := r.enter(ctx, "RunSandbox")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sandboxCalls--
	if err != nil {
		return "", err
	}
	uid := pod.UID(config.Labels[pod.LabelPodUID])
	s := &sandboxRecord{uid: uid, name: config.Metadata.Name, namespace: config.Metadata.Namespace, logs: config.LogDirectory}
	s.Sandbox = pod.Sandbox{
		ID: r.id("sandbox"), Attempt: config.Metadata.Attempt, State: pod.SandboxReady, CreatedAt: time.Now(),
		Hash: config.Annotations[pod.AnnotationSpecHash], IPs: []string{fmt.Sprintf("10.0.0.%d", r.ids%250+1)},
	}
	if seen, err := time.Parse(time.RFC3339Nano, config.Annotations[pod.AnnotationSeen]); err == nil {
		s.FirstSeen = seen
	}
	r.sandboxes[s.ID] = s
	if r.pods[uid] == nil {
		r.pods[uid] = &podRecords{map[string]*sandboxRecord{}, map[string]*containerRecord{}}
	}
	r.pods[uid].sandboxes[s.ID] = s
	r.sendEvent(uid)
	return s.ID, nil
}

// StopSandbox implements execute.Runtime.
func (r *Runtime) StopSandbox(ctx context.Context, id string) error {
	if err := r.enter(ctx, "StopSandbox"); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[id]
	if s == nil {
		return nil
	}
	for _, c := range r.pods[s.uid].containers {
		if c.SandboxID == id && c.State == pod.ContainerRunning {
			r.end(c, 137)
		}
	}
	s.State = pod.SandboxNotReady
	r.sendEvent(s.uid)
	return nil
}

// RemoveSandbox implements execute.Runtime.
func (r *Runtime) RemoveSandbox(ctx context.Context, id string) error {
	if err := r.enter(ctx, "RemoveSandbox"); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[id]
	if s == nil {
		return nil
	}
	records := r.pods[s.uid]
	for _, c := range records.containers {
		if c.SandboxID == id {
			delete(r.containers, c.ID)
			delete(records.containers, c.ID)
		}
	}
	delete(r.sandboxes, id)
	delete(records.sandboxes, id)
	if len(records.sandboxes) == 0 {
		delete(r.pods, s.uid)
	}
	return nil
}

// CreateContainer implements execute.Runtime.
func (r *Runtime) CreateContainer(ctx context.Context, sandbox string, config *render.ContainerConfig, _ *render.SandboxConfig) (string, error) {
	if err := r.enter(ctx, "CreateContainer"); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[sandbox]
	if s == nil {
		return "", status.Errorf(codes.NotFound, "no sandbox %s", sandbox)
	}
	backoff, err := time.ParseDuration(config.Annotations[pod.AnnotationBackoff])
	if err != nil {
		return "", err
	}
	grace, err := strconv.ParseInt(config.Annotations[pod.AnnotationGrace], 10, 64)
	if err != nil {
		return "", err
	}
	round, err := strconv.Atoi(config.Annotations[pod.AnnotationRound])
	if err != nil {
		return "", err
	}
	restarts, err := strconv.ParseInt(config.Annotations[pod.AnnotationRestartCount], 10, 32)
	if err != nil {
		return "", err
	}
	for _, other := range r.pods[s.uid].containers { // as containerd does
		if other.Name == config.Metadata.Name && other.Attempt == int32(config.Metadata.Attempt) {
			return "", status.Errorf(codes.AlreadyExists, "the name of container %s is reserved for %s", other.Name, other.ID)
		}
	}
	c := &containerRecord{uid: s.uid}
	c.Container = pod.Container{
		ID: r.id("container"), Name: config.Metadata.Name, SandboxID: sandbox, State: pod.ContainerCreated,
		Image: cmp.Or(config.Image.UserSpecifiedImage, config.Image.Image), ImageRef: config.Image.Image, CreatedAt: time.Now(),
		Hash: config.Annotations[pod.AnnotationSpecHash], Attempt: int32(config.Metadata.Attempt), RestartCount: int32(restarts), Backoff: backoff, Round: round,
		Grace: grace, LogPath: filepath.Join(s.logs, config.LogPath),
	}
	r.containers[c.ID] = c
	r.pods[s.uid].containers[c.ID] = c
	r.sendEvent(s.uid)
	return c.ID, nil
}

// StartContainer implements execute.Runtime.
func (r *Runtime) StartContainer(ctx context.Context, id string) error {
	if err := r.enter(ctx, "StartContainer"); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		return status.Errorf(codes.NotFound, "no container %s", id)
	}
	c.State, c.StartedAt = pod.ContainerRunning, time.Now()
	r.sendEvent(c.uid)
	if r.loseStart {
		r.loseStart = false
		return fmt.Errorf("start container %s: %w", id, pod.ErrNoAnswer)
	}
	return nil
}

// StopContainer implements execute.Runtime.
func (r *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	if err := r.enter(ctx, "StopContainer"); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[id]; c != nil && c.State == pod.ContainerRunning {
		r.stops = append(r.stops, Stop{Container: c.Name, Grace: grace, At: time.Now()})
		r.end(c, 0)
	}
	return nil
}

// RemoveContainer implements execute.Runtime.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	if err := r.enter(ctx, "RemoveContainer"); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[id]; c != nil {
		delete(r.containers, id)
		delete(r.pods[c.uid].containers, id)
	}
	return nil
}

// ImageRef implements image.Runtime.
func (r *Runtime) ImageRef(ctx context.Context, image string) (string, error) {
	if err := r.enter(ctx, "ImageRef"); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.images[image] {
		return "ref:" + image, nil
	}
	return "", nil
}

// PullImage implements image.Runtime. The image is present afterwards.
func (r *Runtime) PullImage(ctx context.Context, image string, _ keyring.Credential) (string, error) {
	if err := r.enter(ctx, "PullImage"); err != nil {
		return "", err
	}
	r.AddImage(image)
	return "ref:" + image, nil
}

// Pod implements observe.Runtime.
func (r *Runtime) Pod(ctx context.Context, uid pod.UID) (pod.Observed, error) {
	if err := r.enter(ctx, "Pod"); err != nil {
		return pod.Observed{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if records := r.pods[uid]; records != nil {
		return *records.observed(uid), nil
	}
	return pod.Observed{UID: uid}, nil
}

// List implements observe.Runtime.
func (r *Runtime) List(ctx context.Context) (map[pod.UID]*pod.Observed, error) {
	if err := r.enter(ctx, "List"); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all(), nil
}

func (r *Runtime) all() map[pod.UID]*pod.Observed {
	out := map[pod.UID]*pod.Observed{}
	for uid, records := range r.pods {
		out[uid] = records.observed(uid)
	}
	return out
}

// observed lists the sandboxes and containers of a pod, the newest first.
func (p *podRecords) observed(uid pod.UID) *pod.Observed {
	o := &pod.Observed{UID: uid}
	for _, s := range p.sandboxes {
		o.Name, o.Namespace = s.name, s.namespace
		o.Sandboxes = append(o.Sandboxes, s.Sandbox)
	}
	for _, c := range p.containers {
		o.Containers = append(o.Containers, c.Container)
	}
	slices.SortFunc(o.Sandboxes, func(a, b pod.Sandbox) int { return cmp.Compare(number(b.ID), number(a.ID)) })
	slices.SortFunc(o.Containers, func(a, b pod.Container) int { return cmp.Compare(number(b.ID), number(a.ID)) })
	return o
}

// number returns the number in an id. Ids are ordered by it, since the clock of a test may stand
// still.
func number(id string) int {
	n, err := strconv.Atoi(strings.TrimLeft(id, "abcdefghijklmnopqrstuvwxyz"))
	if err != nil {
		panic("fake: an id that was not made here: " + id)
	}
	return n
}

// Events implements observe.Runtime.
func (r *Runtime) Events(ctx context.Context, opened func(), each func(cri.Event)) error {
	if err := r.enter(ctx, "Events"); err != nil {
		return err
	}
	l := make(chan cri.Event, 1024)
	r.mu.Lock()
	r.listeners[l] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.listeners, l)
	}()
	opened()
	for {
		select {
		case e := <-l:
			each(e)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
