package cri

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
)

// Unanswered is a method of the CRI that the runtime leaves without an answer.
type Unanswered struct {
	Method string // such as ListContainers
	// Since is the start of the first call that got no answer. Calls that were given up
	// and made again since then do not change it.
	Since time.Time
	// Err is why the last call did not reach the runtime, such as a connection that is refused.
	// Nil: the runtime accepts calls, and does not answer them.
	Err error
}

// Unanswered returns the methods that concern the whole node and that the runtime does
// not answer at present, the oldest first. Calls that concern one pod are left out: one
// pod that hangs says nothing of the node.
func (c *Client) Unanswered() []Unanswered { return c.calls.unanswered() }

// nodeWide reports whether a request concerns the whole node. The usage of all pods is read
// from one process per pod, any of which may hang, so it does not.
func nodeWide(request any) bool {
	switch r := request.(type) {
	case *runtimeapi.VersionRequest, *runtimeapi.StatusRequest, *runtimeapi.ImageFsInfoRequest, *runtimeapi.ListImagesRequest:
		return true
	case *runtimeapi.ListPodSandboxRequest:
		return len(r.GetFilter().GetLabelSelector()) == 0
	case *runtimeapi.ListContainersRequest:
		return len(r.GetFilter().GetLabelSelector()) == 0
	default:
		return false
	}
}

// callTable holds the node-wide calls that are under way or were given up.
type callTable struct {
	mu      sync.Mutex
	methods map[string]*methodCalls // by the name of the method
}

// methodCalls are the calls of one method.
type methodCalls struct {
	next     int
	underWay map[int]time.Time // by number of the call: when it began

	// The calls without an answer since the last answered call: when the first began, when the
	// last was given up, and its error if it did not reach the runtime. Zero: there are none.
	silent  time.Time
	givenUp time.Time
	err     error
}

// forgetAfter is how long a call that was given up counts if it is not made again. After that it
// is not known whether the runtime would answer.
const forgetAfter = 2 * time.Minute

func newCallTable() *callTable { return &callTable{methods: map[string]*methodCalls{}} }

// begin records the start of a call. The function that it returns records the end.
func (t *callTable) begin(method string) (end func(error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.methods[method]
	if m == nil {
		m = &methodCalls{underWay: map[int]time.Time{}}
		t.methods[method] = m
	}
	id, began := m.next, time.Now()
	m.next++
	m.underWay[id] = began
	return func(err error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(m.underWay, id)
		switch code(err) {
		case codes.Canceled: // by the caller: it says nothing of the runtime
		case codes.DeadlineExceeded, codes.Unavailable:
			if m.silent.IsZero() {
				m.silent = began
			}
			m.givenUp, m.err = time.Now(), nil
			if code(err) == codes.Unavailable {
				m.err = err
			}
		default:
			t.answered(m)
		}
	}
}

// answered records that a call of a method was answered. If earlier calls of that method were
// not, the runtime is back, and calls of other methods that were given up do not count any more.
func (t *callTable) answered(m *methodCalls) {
	back := !m.silent.IsZero()
	for _, other := range t.methods {
		if other == m || back {
			other.silent, other.givenUp, other.err = time.Time{}, time.Time{}, nil
		}
	}
}

func (t *callTable) unanswered() []Unanswered {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Unanswered
	for method, m := range t.methods {
		since := slices.Collect(maps.Values(m.underWay))
		if !m.silent.IsZero() && (len(since) > 0 || time.Since(m.givenUp) < forgetAfter) {
			since = append(since, m.silent)
		}
		if len(since) > 0 {
			out = append(out, Unanswered{Method: method, Since: slices.MinFunc(since, time.Time.Compare), Err: m.err})
		}
	}
	slices.SortFunc(out, func(a, b Unanswered) int {
		if c := a.Since.Compare(b.Since); c != 0 {
			return c
		}
		return strings.Compare(a.Method, b.Method)
	})
	return out
}

// intercept is the interceptor of all unary calls: it records node-wide calls, sets a deadline
// for calls without a limit, and marks the errors of calls that got no answer.
func (t *callTable) intercept(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	if _, limited := ctx.Deadline(); !limited && ctx.Value(watchedKey{}) == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, startTimeout)
		defer cancel()
	}
	if !nodeWide(request) {
		return markUnanswered(ctx, invoke(ctx, method, request, reply, conn, options...))
	}
	end := t.begin(method[strings.LastIndexByte(method, '/')+1:])
	err := invoke(ctx, method, request, reply, conn, options...)
	end(err)
	return markUnanswered(ctx, err)
}

// markUnanswered makes the error of a call with that context a pod.ErrNoAnswer if it does not come
// from the runtime: the runtime is not there, went away in the middle, or let the deadline of the
// call pass. A deadline that the runtime itself reports is an answer, and a call that was canceled
// by its caller says nothing about the runtime.
func markUnanswered(ctx context.Context, err error) error {
	switch c := code(err); {
	case err == nil || errors.Is(err, pod.ErrNoAnswer):
	case c == codes.Unavailable, c == codes.DeadlineExceeded && timeIsOver(ctx):
		return fmt.Errorf("%w: %w", pod.ErrNoAnswer, err)
	}
	return err
}

// timeIsOver reports whether the deadline of a call has come. The runtime knows the deadline, too, and
// gives up at the same moment, so its error may be here first.
func timeIsOver(ctx context.Context) bool {
	const moment = 100 * time.Millisecond
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && time.Until(deadline) < moment
}

// watchedKey marks the context of a call that whileAnswering watches over.
type watchedKey struct{}

// whileAnswering returns a context for a call without a deadline, such as a pull. It ends
// with pod.ErrNoAnswer as its cause when the runtime does not answer a Version call.
func (c *Client) whileAnswering(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(context.WithValue(ctx, watchedKey{}, true))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(c.timeout):
			}
			if _, err := c.Version(ctx); code(err) == codes.DeadlineExceeded {
				end(pod.ErrNoAnswer)
				return
			}
		}
	}()
	return ctx, func() {
		end(nil)
		<-ended
	}
}
