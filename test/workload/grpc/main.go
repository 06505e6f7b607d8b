// Command grpc answers gRPC health checks at the address that it is given: it is
// well, and its service "sick" is not. It is a program of its own, because it is
// much larger than the other workloads.
package main

import (
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "grpc:", err)
		os.Exit(1)
	}
}

func serve(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	state := health.NewServer()
	state.SetServingStatus("sick", healthv1.HealthCheckResponse_NOT_SERVING)
	server := grpc.NewServer()
	healthv1.RegisterHealthServer(server, state)
	return server.Serve(listener)
}
