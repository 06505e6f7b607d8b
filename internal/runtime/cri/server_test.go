package cri

import (
	"context"
	"net"
	"os"
	"path"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
)

// server is just enough of a runtime, on a socket of its own. What a test sets in
// it is set before the client calls.
type server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	statuses   map[string]*runtimeapi.ContainerStatus         // one that is not here is gone
	networks   map[string]*runtimeapi.PodSandboxNetworkStatus // likewise
	images     map[string]string
	conditions []*runtimeapi.RuntimeCondition
	answers    map[string]proto.Message                // of calls that are answered with it, whatever they ask
	events     chan *runtimeapi.ContainerEventResponse // nil: there are none

	hangs bool             // no call is ever answered
	fails map[string]error // by call

	mu       sync.Mutex
	requests map[string]any           // the last of each call
	timeouts map[string]time.Duration // how long it may take; one without a deadline is not here
}

func notFound(id string) error { return status.Errorf(codes.NotFound, "%s is not here", id) }

// intercept notes every call, and lets it hang or fail.
func (s *server) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	call := path.Base(info.FullMethod)
	s.mu.Lock()
	if s.requests == nil {
		s.requests, s.timeouts = map[string]any{}, map[string]time.Duration{}
	}
	s.requests[call] = req
	if deadline, ok := ctx.Deadline(); ok {
		s.timeouts[call] = time.Until(deadline)
	}
	s.mu.Unlock()
	if s.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err := s.fails[call]; err != nil {
		return nil, err
	}
	if answer := s.answers[call]; answer != nil {
		return answer, nil
	}
	return next(ctx, req)
}

func request[T any](t *testing.T, s *server, call string) T {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	req, ok := s.requests[call].(T)
	if !ok {
		t.Fatalf("%s was not called", call)
	}
	return req
}

// socket returns a path that is short enough for a socket.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// serve answers at a path until stop, at the latest when the test ends.
func (s *server) serve(t *testing.T, at string) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	return s.serveOn(t, l)
}

func (s *server) serveOn(t *testing.T, l net.Listener) (stop func()) {
	t.Helper()
	g := grpc.NewServer(grpc.UnaryInterceptor(s.intercept))
	runtimeapi.RegisterRuntimeServiceServer(g, s)
	runtimeapi.RegisterImageServiceServer(g, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(l) // it ends with Stop
	}()
	stop = sync.OnceFunc(func() {
		g.Stop()
		<-done
	})
	t.Cleanup(stop)
	return stop
}

func connect(t *testing.T, at string, timeout time.Duration) *Client {
	t.Helper()
	c, err := New(Config{RuntimeEndpoint: "unix://" + at, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// clientOf returns a client of s.
func clientOf(t *testing.T, s *server) *Client {
	t.Helper()
	at := socket(t)
	s.serve(t, at)
	return connect(t, at, 10*time.Second)
}

func (s *server) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "test", RuntimeVersion: "1"}, nil
}

func (s *server) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: s.conditions}}, nil
}

func matches(labels, selector map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func (s *server) ListPodSandbox(_ context.Context, r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	out := &runtimeapi.ListPodSandboxResponse{}
	for _, item := range s.sandboxes {
		if matches(item.Labels, r.GetFilter().GetLabelSelector()) {
			out.Items = append(out.Items, item)
		}
	}
	return out, nil
}

func (s *server) ListContainers(_ context.Context, r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	out := &runtimeapi.ListContainersResponse{}
	for _, item := range s.containers {
		if matches(item.Labels, r.GetFilter().GetLabelSelector()) {
			out.Containers = append(out.Containers, item)
		}
	}
	return out, nil
}

func (s *server) ContainerStatus(_ context.Context, r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	if s.statuses[r.ContainerId] == nil {
		return nil, notFound(r.ContainerId)
	}
	return &runtimeapi.ContainerStatusResponse{Status: s.statuses[r.ContainerId]}, nil
}

func (s *server) PodSandboxStatus(_ context.Context, r *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	network, ok := s.networks[r.PodSandboxId]
	if !ok {
		return nil, notFound(r.PodSandboxId)
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{Network: network}}, nil
}

func (s *server) RunPodSandbox(context.Context, *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: "new-sandbox"}, nil
}

func (s *server) CreateContainer(context.Context, *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	return &runtimeapi.CreateContainerResponse{ContainerId: "new-container"}, nil
}

func (s *server) StartContainer(context.Context, *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	return &runtimeapi.StartContainerResponse{}, nil
}

func (s *server) StopContainer(context.Context, *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	return &runtimeapi.StopContainerResponse{}, nil
}

func (s *server) ImageStatus(_ context.Context, r *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	if id := s.images[r.GetImage().GetImage()]; id != "" {
		return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: id}}, nil
	}
	return &runtimeapi.ImageStatusResponse{}, nil
}

func (s *server) PullImage(context.Context, *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	return &runtimeapi.PullImageResponse{}, nil
}

func (s *server) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	if s.events == nil {
		return status.Error(codes.Unimplemented, "no events here")
	}
	for e := range s.events {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	return nil
}

func labels(uid, container string) map[string]string {
	out := map[string]string{pod.LabelPodUID: uid, pod.LabelPodName: "web", pod.LabelPodNamespace: "shop"}
	if container != "" {
		out[pod.LabelContainerName] = container
	}
	return out
}
