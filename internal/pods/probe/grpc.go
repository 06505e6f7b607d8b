package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth/internal/pods/handler"
)

// grpcHealth succeeds when the health service of the container says SERVING.
func grpcHealth(ctx context.Context, q checkRequest, g *v1.GRPCAction, timeout time.Duration) checkResult {
	at, err := handler.Address(q.target, "", intstr.FromInt32(g.Port))
	if err != nil {
		return unknown(err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// gRPC would retry the connection, and only report the timeout.
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", at)
	switch {
	case err != nil && ctx.Err() != nil:
		return connectionFailure(connectTimeout(at, timeout), err)
	case err != nil:
		return connectionFailure(fmt.Sprintf("error: failed to connect service at %q: %v", at, err), err)
	}
	defer conn.Close()
	client, err := grpc.NewClient("passthrough:///"+at,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(only(conn)),
		grpc.WithUserAgent(userAgent),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxRead)),
	)
	if err != nil {
		return unknown(fmt.Sprintf("make a client of %q: %v", at, err))
	}
	defer client.Close() //nolint:errcheck // at worst it is closed already
	var service string
	if g.Service != nil {
		service = *g.Service
	}
	resp, err := grpc_health_v1.NewHealthClient(client).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil {
		return grpcFailure(at, service, timeout, client.GetState(), err)
	}
	if resp.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return failure(fmt.Sprintf("service unhealthy (responded with %q)", resp.GetStatus()))
	}
	return success("service healthy")
}

// grpcFailure returns the result for a failed call.
func grpcFailure(at, service string, timeout time.Duration, conn connectivity.State, err error) checkResult {
	message := status.Convert(err).Message()
	switch code := status.Code(err); {
	case code == codes.DeadlineExceeded && conn != connectivity.Ready:
		return failure(connectTimeout(at, timeout))
	case code == codes.DeadlineExceeded:
		return failure(fmt.Sprintf("timeout: health rpc did not complete within %v", timeout))
	case code == codes.Unimplemented:
		return failure("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " + message)
	case code == codes.NotFound:
		return failure(fmt.Sprintf("error: health rpc probe failed: the server knows no service %q: %s", service, message))
	default:
		return failure(fmt.Sprintf("error: health rpc probe failed: %s: %s", code, message))
	}
}

func connectTimeout(at string, timeout time.Duration) string {
	return fmt.Sprintf("timeout: failed to connect service %q within %v", at, timeout)
}

// only returns a dialer that returns one connection, once.
func only(conn net.Conn) func(context.Context, string) (net.Conn, error) {
	conns := make(chan net.Conn, 1)
	conns <- conn
	return func(context.Context, string) (net.Conn, error) {
		select {
		case c := <-conns:
			return c, nil
		default:
			return nil, errors.New("the connection was closed")
		}
	}
}
