package cri

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/keyring"
)

var (
	deadline = status.Error(codes.DeadlineExceeded, "context deadline exceeded")
	canceled = status.Error(codes.Canceled, "context canceled")
)

func TestWhatTheRuntimeDoesNotAnswerIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := newCallTable()
		expect := func(want ...string) {
			t.Helper()
			var got []string
			for _, u := range calls.unanswered() {
				got = append(got, fmt.Sprint(u.Method, " ", time.Since(u.Since)))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("unanswered: %q, want %q", got, want)
			}
		}
		expect()
		// given a call that is given up, and made again
		end := calls.begin("ListContainers")
		time.Sleep(2 * time.Minute)
		expect("ListContainers 2m0s")
		end(deadline)
		time.Sleep(time.Second)
		end = calls.begin("ListContainers")
		other := calls.begin("Version")
		time.Sleep(9 * time.Second)
		// then it counts from the first time, and as long as there is no answer
		expect("ListContainers 2m10s", "Version 9s")
		other(nil)
		end(canceled)
		expect("ListContainers 2m10s")
		// one that is not made again does not count for ever
		time.Sleep(forgetAfter)
		expect()
		end = calls.begin("ListContainers")
		expect("ListContainers 4m10s")
		end(deadline)
		// an error is an answer, too
		calls.begin("ListContainers")(status.Error(codes.Internal, "the database is gone"))
		expect()
		// a call whose caller has left is not reported
		end = calls.begin("Status")
		time.Sleep(time.Hour)
		end(canceled)
		expect()
		// a runtime that is back may answer all that it did not before
		calls.begin("ListPodSandbox")(status.Error(codes.Unavailable, "connection refused"))
		calls.begin("Version")(deadline)
		if found := calls.unanswered(); len(found) != 2 || found[0].Err == nil || found[1].Err != nil {
			t.Errorf("unanswered: %v", found)
		}
		calls.begin("ListImages")(nil) // which it answered all the while
		expect("ListPodSandbox 0s", "Version 0s")
		calls.begin("Version")(nil)
		expect()
		// one that is answered does not hide another that is not
		calls.begin("ListImages")
		time.Sleep(time.Minute)
		calls.begin("ListImages")(nil)
		expect("ListImages 1m0s")
	})
}

func TestCallsOfOnePodSayNothingOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := newCallTable()
		hangs := func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
		of := map[string]string{"io.kubernetes.pod.uid": "a"}
		for _, request := range []any{
			&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: of}},
			&runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: of}},
			&runtimeapi.StopPodSandboxRequest{}, &runtimeapi.PodSandboxStatusRequest{}, &runtimeapi.ListPodSandboxStatsRequest{}, &runtimeapi.PullImageRequest{},
		} {
			began := time.Now()
			if err := calls.intercept(t.Context(), "/runtime.v1.RuntimeService/Any", request, nil, nil, hangs); code(err) != codes.DeadlineExceeded || time.Since(began) != startTimeout {
				t.Errorf("%T, which came without a limit, ended after %s: %v", request, time.Since(began), err)
			}
			if found := calls.unanswered(); len(found) != 0 {
				t.Errorf("%T: %v", request, found)
			}
		}
		for _, request := range []any{&runtimeapi.ListContainersRequest{}, &runtimeapi.ListPodSandboxRequest{}, &runtimeapi.StatusRequest{}} {
			method := fmt.Sprintf("%T", request)
			_ = calls.intercept(t.Context(), "/runtime.v1.RuntimeService/"+method, request, nil, nil, hangs)
			if found := calls.unanswered(); len(found) == 0 || found[len(found)-1].Method != method {
				t.Errorf("unanswered: %v, and not %s", found, method)
			}
		}
	})
}

// hangingRuntime answers no call.
type hangingRuntime struct{ grpc.ClientConnInterface }

func (hangingRuntime) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	<-ctx.Done()
	return status.FromContextError(ctx.Err()).Err()
}

// Every method of the client that asks the runtime comes back from one that hangs, by
// itself. With a new one without a limit, this test hangs.
func TestEveryCallHasALimit(t *testing.T) {
	given := map[reflect.Type]any{
		reflect.TypeFor[[]string]():           []string{"x"},
		reflect.TypeFor[keyring.Credential](): keyring.Credential{},
	}
	typ := reflect.TypeFor[*Client]()
	for i := range typ.NumMethod() {
		method := typ.Method(i)
		if method.Type.NumIn() < 2 || method.Type.In(1) != reflect.TypeFor[context.Context]() {
			continue
		}
		switch method.Name {
		case "Events", "Changes": // for as long as there is a reader
			continue
		}
		t.Run(method.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Client{
					runtime: runtimeapi.NewRuntimeServiceClient(hangingRuntime{}), image: runtimeapi.NewImageServiceClient(hangingRuntime{}), timeout: time.Minute,
				}
				args := []reflect.Value{reflect.ValueOf(c), reflect.ValueOf(t.Context())}
				inputs := method.Type.NumIn()
				if method.Type.IsVariadic() {
					inputs--
				}
				for in := 2; in < inputs; in++ {
					arg := reflect.Zero(method.Type.In(in))
					if value, ok := given[method.Type.In(in)]; ok {
						arg = reflect.ValueOf(value)
					}
					args = append(args, arg)
				}
				began := time.Now()
				results := method.Func.Call(args)
				err, _ := results[len(results)-1].Interface().(error)
				if took := time.Since(began); err == nil || took == 0 || took > 2*startTimeout {
					t.Errorf("it ended after %s: %v", took, err)
				}
			})
		})
	}
}

func TestAPullLastsAsLongAsTheRuntimeAnswersAnythingElse(t *testing.T) {
	for name, silent := range map[string]bool{"it answers": false, "it is silent": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Client{runtime: &commander{mute: silent}, image: runtimeapi.NewImageServiceClient(hangingRuntime{}), timeout: time.Minute}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				_, err := c.PullImage(ctx, "localhost/large:1", keyring.Credential{})
				took := time.Since(began)
				if silent && (!errors.Is(err, pod.ErrNoAnswer) || took != 2*time.Minute || !strings.Contains(err.Error(), "localhost/large:1")) {
					t.Errorf("after %s: %v", took, err)
				}
				if !silent && took != time.Hour {
					t.Errorf("given up after %s: %v", took, err)
				}
			})
		})
	}
}
