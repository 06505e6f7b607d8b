package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestOperationsAreNamedAsDashboardsKnowThem(t *testing.T) {
	for method, want := range map[string]string{
		"/runtime.v1.RuntimeService/RunPodSandbox":             "run_podsandbox",
		"/runtime.v1.RuntimeService/ListPodSandboxStats":       "list_podsandbox_stats",
		"/runtime.v1.RuntimeService/PodSandboxStatus":          "podsandbox_status",
		"/runtime.v1.RuntimeService/ListContainers":            "list_containers",
		"/runtime.v1.RuntimeService/UpdateContainerResources":  "update_container",
		"/runtime.v1.RuntimeService/UpdatePodSandboxResources": "update_podsandbox_resources",
		"/runtime.v1.RuntimeService/ExecSync":                  "exec_sync",
		"/runtime.v1.RuntimeService/Version":                   "version",
		"/runtime.v1.ImageService/ImageFsInfo":                 "image_fs_info",
		"/runtime.v1.ImageService/PullImage":                   "pull_image",
	} {
		if got := operation(method); got != want {
			t.Errorf("%s is %q, want %q", method, got, want)
		}
	}
}

func TestEveryCallIsSeen(t *testing.T) {
	s := &server{fails: map[string]error{"ImageStatus": errors.New("no")}}
	at := socket(t)
	s.serve(t, at)
	var seen []string
	c, err := New(Config{
		RuntimeEndpoint: "unix://" + at, Timeout: 10 * time.Second,
		Call: func(ctx context.Context, operation string) (context.Context, func(error)) {
			return ctx, func(err error) { seen = append(seen, fmt.Sprint(operation, " ", err != nil)) }
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })

	_, _ = c.Version(t.Context())
	_, _ = c.ImageRef(t.Context(), "localhost/app:1")

	if want := []string{"version false", "image_status true"}; !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
}
