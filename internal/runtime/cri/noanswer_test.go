package cri

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/lib/pod"
)

// notAsked are the methods of a Client that ask the runtime nothing, or no single question.
var notAsked = []string{"Changes", "Close", "Events", "Unanswered"}

// Every call of the runtime returns an error that says that there was no answer.
func TestACallToARuntimeThatIsAwayHasNoAnswer(t *testing.T) {
	c := connect(t, socket(t), time.Second) // without a listener
	methods := reflect.ValueOf(c).Type()
	called := 0
	for i := range methods.NumMethod() {
		m := methods.Method(i)
		if slices.Contains(notAsked, m.Name) {
			continue
		}
		called++
		args := []reflect.Value{reflect.ValueOf(c)}
		for n := 1; n < m.Type.NumIn(); n++ {
			args = append(args, argument(t, m.Type.In(n)))
		}
		call := m.Func.Call
		if m.Type.IsVariadic() {
			call = m.Func.CallSlice
		}
		out := call(args)
		err, ok := out[len(out)-1].Interface().(error)
		if !ok || !errors.Is(err, pod.ErrNoAnswer) {
			t.Errorf("%s: %v is not %v", m.Name, err, pod.ErrNoAnswer)
			continue
		}
		if !strings.Contains(Reason(err), pod.ErrNoAnswer.Error()) {
			t.Errorf("%s: users read %q", m.Name, Reason(err))
		}
	}
	if called < 20 {
		t.Errorf("only %d methods were called", called)
	}
}

// argument returns an argument of that type for a call.
func argument(t *testing.T, of reflect.Type) reflect.Value {
	t.Helper()
	switch {
	case of == reflect.TypeFor[context.Context]():
		return reflect.ValueOf(t.Context())
	case of == reflect.TypeFor[[]string]():
		return reflect.ValueOf([]string{"x"})
	case of.Kind() == reflect.Pointer:
		return reflect.New(of.Elem())
	default:
		return reflect.Zero(of)
	}
}

func TestWhatTheRuntimeSaysIsAnAnswer(t *testing.T) {
	over, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		code codes.Code
		want bool
	}{
		"it has no such container":     {t.Context(), codes.NotFound, false},
		"a deadline of its own":        {t.Context(), codes.DeadlineExceeded, false},
		"the deadline of the call":     {over, codes.DeadlineExceeded, true},
		"it went away":                 {t.Context(), codes.Unavailable, true},
		"it broke a pull off":          {t.Context(), codes.Canceled, false},
		"it failed when time was over": {over, codes.Unknown, false},
	} {
		err := markUnanswered(tc.ctx, status.Error(tc.code, "words"))
		if got := errors.Is(err, pod.ErrNoAnswer); got != tc.want || code(err) != tc.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := markUnanswered(over, nil); err != nil {
		t.Error(err)
	}
}
