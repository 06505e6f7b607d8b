package hook

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth/internal/lib/leaktest"
	"berth/internal/pods/handler"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// call holds the arguments of one command.
type call struct {
	id      string
	command []string
	timeout time.Duration
}

// answers is an Exec that always ends the same way.
func answers(output string, code int32, err error, calls *[]call) Exec {
	return func(_ context.Context, id string, command []string, timeout time.Duration) ([]byte, int32, error) {
		*calls = append(*calls, call{id, command, timeout})
		return []byte(output), code, err
	}
}

func runnerOf(t *testing.T, exec Exec) (*Runner, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	r, err := New(Config{Exec: exec, Explain: error.Error, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return r, &log
}

func noExec(context.Context, string, []string, time.Duration) ([]byte, int32, error) {
	return nil, 0, errors.New("nobody should have run a command")
}

func target(ports ...v1.ContainerPort) handler.Target {
	return handler.Target{
		Pod:         &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}},
		Container:   &v1.Container{Name: "app", Ports: ports},
		ContainerID: "c1",
		PodIP:       "127.0.0.1",
	}
}

func execHook(command ...string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: command}}
}

func sleepHook(seconds int64) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: seconds}}
}

func tcpHook(host string, port intstr.IntOrString) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{Host: host, Port: port}}
}

// wantError checks that err contains all of words.
func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func TestNewNamesAllThatIsMissing(t *testing.T) {
	_, err := New(Config{})
	wantError(t, err, "command", "explains", "log")
}

func TestNoHookSucceeds(t *testing.T) {
	r, _ := runnerOf(t, noExec)
	if err := r.Run(t.Context(), target(), nil); err != nil {
		t.Error(err)
	}
}

func TestHookThatAsksForNothing(t *testing.T) {
	r, _ := runnerOf(t, noExec)
	err := r.Run(t.Context(), target(), &v1.LifecycleHandler{})
	wantError(t, err, "container app", "set one of exec, httpGet, tcpSocket, sleep")
}

func TestTargetWithoutItsParts(t *testing.T) {
	r, _ := runnerOf(t, noExec)
	wantError(t, r.Run(t.Context(), handler.Target{}, sleepHook(0)), "pod", "container")
}

func TestExecSucceeds(t *testing.T) {
	var calls []call
	r, _ := runnerOf(t, answers("fine", 0, nil, &calls))

	if err := r.Run(t.Context(), target(), execHook("sh", "-c", "true")); err != nil {
		t.Fatal(err)
	}

	if len(calls) != 1 || calls[0].id != "c1" || strings.Join(calls[0].command, " ") != "sh -c true" {
		t.Errorf("ran %+v", calls)
	}
	if calls[0].timeout != 0 {
		t.Errorf("timeout %s without a deadline", calls[0].timeout)
	}
}

func TestExecIsGivenWhatIsLeftOfTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []call
		r, _ := runnerOf(t, answers("", 0, nil, &calls))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		time.Sleep(3 * time.Second)

		if err := r.Run(ctx, target(), execHook("true")); err != nil {
			t.Fatal(err)
		}

		if calls[0].timeout != 7*time.Second {
			t.Errorf("timeout %s, want 7s", calls[0].timeout)
		}
	})
}

func TestExecFailures(t *testing.T) {
	var calls []call
	gone := errors.New("the runtime is gone")
	for name, tc := range map[string]struct {
		exec Exec
		hook *v1.LifecycleHandler
		want []string
		is   error
	}{
		"exit code":       {exec: answers("no \x1b[31mdisk\nleft\x00", 3, nil, &calls), hook: execHook("sh", "-c", "x"), want: []string{`container app: exec ["sh" "-c" "x"]: exit code 3, output: no ?[31mdisk left?`}},
		"silent":          {exec: answers(" \n", 1, nil, &calls), hook: execHook("false"), want: []string{"exit code 1, no output"}},
		"runtime":         {exec: answers("", 0, gone, &calls), hook: execHook("x"), want: []string{`exec ["x"]: the runtime is gone`}, is: gone},
		"timeout":         {exec: answers("", 0, context.DeadlineExceeded, &calls), hook: execHook("x"), want: []string{"not done in time"}, is: context.DeadlineExceeded},
		"empty command":   {exec: noExec, hook: execHook(), want: []string{"the command is empty"}},
		"endless command": {exec: answers("", 1, nil, &calls), hook: execHook(strings.Repeat("é", 5000)), want: []string{"...: exit code 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := runnerOf(t, tc.exec)
			err := r.Run(t.Context(), target(), tc.hook)
			wantError(t, err, tc.want...)
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("%q is not %q", err, tc.is)
			}
			if len(err.Error()) > 512 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

func TestExecBeforeTheContainerIsMade(t *testing.T) {
	r, _ := runnerOf(t, noExec)
	at := target()
	at.ContainerID = ""
	wantError(t, r.Run(t.Context(), at, execHook("true")), "the container was not made yet")
}

func TestExecShowsTheEndOfALongOutput(t *testing.T) {
	var calls []call
	r, _ := runnerOf(t, answers(strings.Repeat("€", 6000)+" and then it broke", 1, nil, &calls))

	err := r.Run(t.Context(), target(), execHook("x"))

	wantError(t, err, "output: ...€", "and then it broke")
	if !utf8.ValidString(err.Error()) {
		t.Error("a character was cut in two")
	}
	if _, output, _ := strings.Cut(err.Error(), "output: "); len(output) > 1024 {
		t.Errorf("%d bytes of output", len(output))
	}
}

func TestExplainChoosesTheWords(t *testing.T) {
	var calls []call
	cause := errors.New("rpc error: code = Unknown desc = no such file")
	r, err := New(Config{
		Exec: answers("", 0, cause, &calls), Log: slog.New(slog.DiscardHandler),
		Explain: func(error) string { return "no such file" },
	})
	if err != nil {
		t.Fatal(err)
	}

	err = r.Run(t.Context(), target(), execHook("x"))

	if want := `container app: exec ["x"]: no such file`; err == nil || err.Error() != want || !errors.Is(err, cause) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNothingIsDoneAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, _ := runnerOf(t, noExec)
	for _, h := range []*v1.LifecycleHandler{execHook("x"), sleepHook(0), tcpHook("", intstr.FromInt32(1)), get(intstr.FromInt32(1), "/")} {
		err := r.Run(ctx, target(), h)
		wantError(t, err, "interrupted")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%q is not context.Canceled", err)
		}
	}
}

func TestSleep(t *testing.T) {
	for name, tc := range map[string]struct {
		seconds  int64
		deadline time.Duration
		took     time.Duration
		err      error
	}{
		"to its end":            {seconds: 20, deadline: 30 * time.Second, took: 20 * time.Second},
		"not at all":            {seconds: 0, deadline: 30 * time.Second},
		"cut short":             {seconds: 60, deadline: 30 * time.Second, took: 30 * time.Second, err: context.DeadlineExceeded},
		"longer than time goes": {seconds: 1 << 62, deadline: time.Minute, took: time.Minute, err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := runnerOf(t, noExec)
				cutShort := 0
				r.cutShort = func() { cutShort++ }
				ctx, cancel := context.WithTimeout(t.Context(), tc.deadline)
				defer cancel()
				began := time.Now()

				err := r.Run(ctx, target(), sleepHook(tc.seconds))

				if (cutShort == 1) != (tc.err != nil) {
					t.Errorf("it counts %d times as cut short", cutShort)
				}

				if took := time.Since(began); took != tc.took {
					t.Errorf("took %s, want %s", took, tc.took)
				}
				if !errors.Is(err, tc.err) {
					t.Errorf("got %v, want %v", err, tc.err)
				}
				if tc.err != nil {
					wantError(t, err, "container app: sleep", "not done in time")
				}
			})
		})
	}
}
