package cri

import (
	"context"
	"strings"
	"unicode"

	"google.golang.org/grpc"
)

// callFunc is called at the beginning of a call, and returns the function for its end.
type callFunc = func(ctx context.Context, operation string) (context.Context, func(error))

// callInterceptors returns an interceptor that reports every unary call, or none if call is
// nil.
func callInterceptors(call callFunc) []grpc.UnaryClientInterceptor {
	if call == nil {
		return nil
	}
	return []grpc.UnaryClientInterceptor{func(
		ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		ctx, end := call(ctx, operation(method))
		err := invoke(ctx, method, request, reply, conn, options...)
		end(err)
		return err
	}}
}

// operation returns the name of a call in the kubelet's metrics:
// /runtime.v1.RuntimeService/RunPodSandbox is run_podsandbox.
func operation(method string) string {
	name := method[strings.LastIndexByte(method, '/')+1:]
	if name == "UpdateContainerResources" {
		return "update_container"
	}
	name = strings.ReplaceAll(name, "PodSandbox", "Podsandbox")
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
