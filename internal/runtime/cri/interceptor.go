package cri

import (
	"context"
	"strings"
	"unicode"

	"google.golang.org/grpc"
)

// callFunc begins a call and returns what ends it.
type callFunc = func(ctx context.Context, operation string) (context.Context, func(error))

// callInterceptors lets somebody see every call that is not a stream.
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

// operation is how metrics name a call: /runtime.v1.RuntimeService/RunPodSandbox is
// run_podsandbox.
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
