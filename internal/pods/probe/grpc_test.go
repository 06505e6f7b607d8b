package probe

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
)

// healthServer answers by the name of the service.
type healthServer struct {
	grpc_health_v1.UnimplementedHealthServer
	agents chan string
}

func (s healthServer) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.agents <- fmt.Sprint(md["user-agent"])
	switch r.Service {
	case "":
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
	case "down":
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}, nil
	case "slow":
		<-ctx.Done()
		return nil, ctx.Err()
	case "rude":
		return nil, status.Error(codes.Internal, "\x1b[2Jgo away")
	default:
		return nil, status.Error(codes.NotFound, "unknown service")
	}
}

func serveGRPC(t *testing.T, register func(*grpc.Server)) int32 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	register(s)
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return portOf(t, l)
}

func TestGRPC(t *testing.T) {
	agents := make(chan string, 100)
	healthy := serveGRPC(t, func(s *grpc.Server) { grpc_health_v1.RegisterHealthServer(s, healthServer{agents: agents}) })
	empty := serveGRPC(t, func(*grpc.Server) {})
	hangUp := listen(t, func(c net.Conn) { c.Close() })
	for name, tc := range map[string]struct {
		port    int32
		service *string
		want    Outcome
		words   string
	}{
		"serving":        {healthy, nil, Success, "service healthy"},
		"not serving":    {healthy, new("down"), Failure, `service unhealthy (responded with "NOT_SERVING")`},
		"not there":      {healthy, new("shop"), Failure, `error: health rpc probe failed: the server knows no service "shop": unknown service`},
		"rude":           {healthy, new("rude"), Failure, "error: health rpc probe failed: Internal: ?[2Jgo away"},
		"no health":      {empty, nil, Failure, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "},
		"hangs up":       {hangUp, nil, Failure, "error: health rpc probe failed: Unavailable: "},
		"nobody listens": {closedPort(t), nil, Failure, `error: failed to connect service at "127.0.0.1:`},
		"no port":        {0, nil, Unknown, "port 0 is not between"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantAnswer(t, checkOf(t, v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: tc.port, Service: tc.service}}), tc.want, tc.words)
		})
	}
	silent := listen(t, mute)
	for name, tc := range map[string]struct {
		port  int32
		words string
	}{
		"slow":   {healthy, "timeout: health rpc did not complete within 1s"},
		"silent": {silent, fmt.Sprintf(`timeout: failed to connect service "127.0.0.1:%d" within 1s`, silent)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantAnswer(t, checkWithin(t, 1, v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: tc.port, Service: new("slow")}}), Failure, tc.words)
		})
	}
	t.Run("user agent", func(t *testing.T) {
		wantAnswer(t, checkOf(t, v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: healthy}}), Success)
		if agent := <-agents; !strings.HasPrefix(agent, "[kube-probe/1.36 ") {
			t.Errorf("user agent %q", agent)
		}
	})
}
