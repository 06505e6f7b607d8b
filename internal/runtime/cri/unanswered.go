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
	// Err is why the last call was not even heard, such as a connection that is refused. Nil:
	// the runtime hears, and says nothing.
	Err error
}

// Unanswered returns the methods that concern the whole node and that the runtime does
// not answer at present, the oldest first. Calls that concern one pod are left out: one
// pod that hangs says nothing of the node.
func (c *Client) Unanswered() []Unanswered { return c.calls.unanswered() }

// nodeWide tells whether a request concerns the whole node. The usage of all pods is read
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

// callTable holds the node-wide calls that are under way or were given up. It is the only
// writer of them.
type callTable struct {
	mu      sync.Mutex
	methods map[string]*methodCalls // by the name of the method
}

// methodCalls are the calls of one method.
type methodCalls struct {
	next     int
	underWay map[int]time.Time // when they began

	// Of those that got no answer since the last that did: when the first began, when the last
	// was given up, and its error if it was not even heard. Zero: there are none.
	silent  time.Time
	givenUp time.Time
	err     error
}

// forgetAfter is how long a call that was given up, and was not made again, counts. Nobody knows
// whether it would be answered now.
const forgetAfter = 2 * time.Minute

func newCallTable() *callTable { return &callTable{methods: map[string]*methodCalls{}} }

// begin notes a call, and what it returns notes its end.
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

// answered takes in that a call was. If calls of that method were not before, the runtime is
// back, and the other methods have to be asked again before they count.
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

// intercept goes between every call and its connection: it notes the node-wide ones, gives a
// limit to those that came without, and marks the errors of those that got no answer.
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

// markUnanswered makes the error of a call with that context a pod.ErrNoAnswer if it is not the
// runtime's: the runtime is not there, went away in the middle, or let the time of the call run
// out. A deadline of which the runtime itself tells is an answer, and a call that its caller broke
// off is no matter of the runtime.
func markUnanswered(ctx context.Context, err error) error {
	switch c := code(err); {
	case err == nil || errors.Is(err, pod.ErrNoAnswer):
	case c == codes.Unavailable, c == codes.DeadlineExceeded && timeIsOver(ctx):
		return fmt.Errorf("%w: %w", pod.ErrNoAnswer, err)
	}
	return err
}

// timeIsOver tells whether the deadline of a call has come. The runtime is told of it and gives up
// at the same moment, so its word may be here first.
func timeIsOver(ctx context.Context) bool {
	const moment = 100 * time.Millisecond
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && time.Until(deadline) < moment
}

// watchedKey marks the context of a call that whileAnswering watches over.
type watchedKey struct{}

// whileAnswering returns a context for a call that may take for ever, such as a pull. It
// ends with pod.ErrNoAnswer as its cause when the runtime does not answer a simple question
// either.
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
