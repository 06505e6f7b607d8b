package source

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// An API server that is away is asked rarely, which is said once. When it is
// back, what happened meanwhile is known within 5 s.
func TestAPISourceOutlivesAnOutage(t *testing.T) {
	refused := fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	for name, failure := range map[string]error{
		"refused": refused,
		"429":     apierrors.NewTooManyRequests("slow down", 1),
		"500":     apierrors.NewInternalError(errors.New("no quorum")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				server := newAPIServer(t)
				server.put("a", "x:1")
				out, stop := start(apiSource(t, APIConfig{Client: server.client, Log: slog.New(slog.NewTextHandler(&log, nil))}).Run)
				defer stop()
				wantNext(t, out, "SET a=x:1")
				time.Sleep(time.Minute) // of fake time: the watch is no longer a short one
				server.asked()

				server.fail(failure)
				server.breakOff()
				wantNone(t, out, 5*time.Minute)
				if n := len(server.asked()); n < 60 || n > 320 {
					t.Errorf("asked %d times in 5 minutes", n)
				}
				server.put("a", "x:2")
				server.fail(nil)
				back := time.Now()
				wantNext(t, out, "SET a=x:2")
				if late := time.Since(back); late > 5*time.Second {
					t.Errorf("it took %s", late)
				}
				synctest.Wait()
				// The database may be another one: the pods were listed again.
				if asked := strings.Join(server.asked(), ", "); !strings.HasSuffix(asked, "list, watch 102") {
					t.Errorf("asked for %v", asked)
				}
				if said := log.String(); strings.Count(said, "\n") != 2 || !strings.Contains(said, "can't be read") || !strings.Contains(said, "can be read from the API server again") {
					t.Errorf("the log:\n%s", said)
				}
			})
		})
	}
}

// A server that was away for a few seconds may be back with the data of a backup, and be
// silent to those who go on where they were. How often it was asked meanwhile is chance.
func TestAPISourceListsAnewAfterAnOutageOfSomeSeconds(t *testing.T) {
	for name, c := range map[string]struct {
		failures []time.Duration // after the watch was lost
		success  time.Duration
		anew     bool
	}{
		"away for a moment":                        {[]time.Duration{0, 600 * time.Millisecond}, 900 * time.Millisecond, false},
		"away for long, and asked to the end":      {[]time.Duration{0, 800 * time.Millisecond, 2400 * time.Millisecond, 4 * time.Second}, 5 * time.Second, true},
		"away for long, and not asked at the end":  {[]time.Duration{0, 800 * time.Millisecond, 2400 * time.Millisecond}, 5700 * time.Millisecond, true},
		"never away, and quiet for a long time":    {nil, time.Hour, false},
		"away for a moment after a long quiet one": {[]time.Duration{time.Hour}, time.Hour + time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newAPIServer(t)
				pods, ok := apiSource(t, APIConfig{Client: server.client}).listWatch().(cache.WatcherWithContext)
				if !ok {
					t.Fatal("it can't be watched")
				}
				began := time.Now()
				watch := func(at time.Duration, streamed bool) error {
					time.Sleep(time.Until(began.Add(at)))
					w, err := pods.WatchWithContext(t.Context(), metav1.ListOptions{SendInitialEvents: &streamed})
					if err == nil {
						w.Stop()
					}
					return err
				}
				server.fail(apierrors.NewServiceUnavailable("away"))
				for _, at := range c.failures {
					if err := watch(at, false); !apierrors.IsServiceUnavailable(err) {
						t.Errorf("while it is away: %v", err)
					}
				}
				server.fail(nil)
				if err := watch(c.success, false); apierrors.IsResourceExpired(err) != c.anew {
					t.Errorf("when it is back: %v", err)
				}
				if err := watch(c.success, false); err != nil {
					t.Errorf("after that: %v", err)
				}
				// A list that is streamed is new in any case.
				server.fail(apierrors.NewServiceUnavailable("away"))
				_ = watch(c.success, true)
				server.fail(nil)
				if err := watch(c.success+time.Minute, true); err != nil {
					t.Errorf("a list: %v", err)
				}
			})
		})
	}
}

// The same through client-go: a server that went back to a backup is not resumed.
func TestAPISourceNoticesABackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(t)
		server.put("a", "x:1")
		server.put("b", "x:1")
		out, stop := start(apiSource(t, APIConfig{Client: server.client}).Run)
		defer stop()
		wantNext(t, out, "SET a=x:1 b=x:1")
		time.Sleep(time.Minute) // of fake time: the watch is no longer a short one
		server.asked()

		server.fail(fmt.Errorf("dial: %w", syscall.ECONNREFUSED))
		server.breakOff()
		wantNone(t, out, 2*time.Second)
		server.mu.Lock()
		server.version, server.pods = 5, map[string]*v1.Pod{}
		server.mu.Unlock()
		server.put("b", "x:0")
		wantNone(t, out, 3*time.Second)
		server.fail(nil)
		wantNext(t, out, "SET b=x:0")
		synctest.Wait()
		if asked := strings.Join(server.asked(), ", "); !strings.HasSuffix(asked, "watch 102, list, watch 6") {
			t.Errorf("asked for %v", asked)
		}
	})
}

// A watch from a version that the server has not reached yet delivers nothing. So another part of
// the agent may have to report that the server's data was replaced.
func TestAPISourceListsAnewOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(t)
		source := apiSource(t, APIConfig{Client: server.client})
		source.Relist() // before it runs there is nothing to do
		server.put("a", "x:1")
		out, stop := start(source.Run)
		defer stop()
		wantNext(t, out, "SET a=x:1")
		synctest.Wait()
		server.asked()

		server.mu.Lock()
		server.version, server.pods, server.watch = 5, map[string]*v1.Pod{}, nil
		server.mu.Unlock()
		server.put("b", "x:2")
		wantNone(t, out, time.Minute)
		source.Relist()
		wantNext(t, out, "SET b=x:2")
		synctest.Wait()
		if asked := server.asked(); strings.Join(asked, ", ") != "list, watch 6" {
			t.Errorf("asked for %v", asked)
		}
		server.put("b", "x:3")
		wantNext(t, out, "SET b=x:3")
	})
}
