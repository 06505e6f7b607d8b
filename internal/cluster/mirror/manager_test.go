package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var podResource = schema.GroupResource{Resource: "pods"}

// server holds one pod, or none.
type server struct {
	client *fake.Clientset

	mu       sync.Mutex
	node     *v1.Node
	held     *v1.Pod
	born     int
	requests []string
	attempts int
	fail     error
}

func newServer() *server {
	s := &server{client: &fake.Clientset{}, node: node()}
	s.client.AddReactor("*", "*", s.serve)
	return s
}

func (s *server) serve(a clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts++
	if s.fail != nil {
		return true, nil, s.fail
	}
	switch a := a.(type) {
	case clienttesting.CreateActionImpl:
		given, ok := a.Object.(*v1.Pod)
		if !ok || s.held != nil {
			return true, nil, apierrors.NewAlreadyExists(podResource, "web-box")
		}
		s.born++
		s.held = given.DeepCopy()
		s.held.UID = types.UID(fmt.Sprint("mirror-", s.born))
		s.requests = append(s.requests, "create "+string(s.held.UID))
		return true, s.held, nil
	case clienttesting.DeleteActionImpl:
		switch {
		case s.held == nil:
			return true, nil, apierrors.NewNotFound(podResource, a.Name)
		case *a.DeleteOptions.Preconditions.UID != s.held.UID || *a.DeleteOptions.GracePeriodSeconds != 0:
			return true, nil, apierrors.NewConflict(podResource, a.Name, errors.New("other UID"))
		}
		s.requests = append(s.requests, "delete "+string(s.held.UID))
		s.held = nil
		return true, nil, nil
	default:
		s.requests = append(s.requests, "unexpected "+a.GetVerb())
		return true, nil, errors.New("unexpected")
	}
}

func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// mirror returns a copy of the mirror pod that the server holds.
func (s *server) mirror() *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held.DeepCopy()
}

func wantServed(t *testing.T, s *server, want string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := strings.Join(s.requests, ", "); have != want {
		t.Errorf("served %q\nwant   %q", have, want)
	}
	s.requests = nil
}

func inBubble(t *testing.T, test func(t *testing.T, s *server, m *Manager, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, log := newServer(), &bytes.Buffer{}
		m, err := New(Config{
			Client: s.client.CoreV1(), Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
			Node: func() *v1.Node {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.node
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			m.Run(ctx)
		}()
		test(t, s, m, log)
		cancel()
		<-done
	})
}

func TestAMirrorIsCreatedKeptAndRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server, m *Manager, _ *bytes.Buffer) {
		p := static()
		m.Ensure(p, nil)
		wantServed(t, s, "create mirror-1")
		m.Ensure(p, nil) // the source has not delivered it yet
		m.Ensure(p, s.mirror())
		wantServed(t, s, "")

		deleted := s.mirror()
		deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		m.Ensure(p, deleted)
		wantServed(t, s, "delete mirror-1, create mirror-2")

		edited := s.mirror()
		edited.Generation = 2
		m.Ensure(p, edited)
		wantServed(t, s, "delete mirror-2, create mirror-3")

		// What was seen of it may be out of date: a later mirror is spared.
		m.Ensure(p, edited)
		wantServed(t, s, "")

		m.Delete(s.mirror())
		wantServed(t, s, "delete mirror-3")
		m.Delete(edited)
		wantServed(t, s, "")
		if len(m.tasks)+len(m.order) > 0 {
			t.Errorf("still to do: %v", m.order)
		}
	})
}

// The static pod was removed and is there again before the server is asked.
func TestAMirrorThatIsToBeDeletedIsNotKept(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server, m *Manager, _ *bytes.Buffer) {
		p := static()
		m.Ensure(p, nil)
		wantServed(t, s, "create mirror-1")
		s.set(func() { s.fail = syscall.ECONNREFUSED })
		m.Delete(s.mirror())
		m.Ensure(p, s.mirror())
		s.set(func() { s.fail = nil })
		time.Sleep(awayPause.Max)
		wantServed(t, s, "delete mirror-1")
		m.Ensure(p, nil)
		wantServed(t, s, "create mirror-2")
	})
}

func TestWithoutANodeThereIsNoMirror(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server, m *Manager, _ *bytes.Buffer) {
		s.set(func() { s.node = nil })
		m.Ensure(static(), nil)
		wantServed(t, s, "")
		s.set(func() { s.node = node() })
		m.Ensure(static(), nil)
		wantServed(t, s, "create mirror-1")
	})
}

func TestMirrorsOutliveAnOutage(t *testing.T) {
	for name, failure := range map[string]error{
		"refused": fmt.Errorf("dial: %w", syscall.ECONNREFUSED),
		"500":     apierrors.NewInternalError(errors.New("no quorum")),
		"429":     apierrors.NewTooManyRequests("slow down", 1),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *server, m *Manager, log *bytes.Buffer) {
				s.set(func() { s.fail = failure })
				p := static()
				for range 300 {
					m.Ensure(p, nil)
					time.Sleep(time.Second)
				}
				s.set(func() {
					if s.attempts < 60 || s.attempts > 200 {
						t.Errorf("%d attempts in 5 minutes", s.attempts)
					}
					s.fail = nil
				})
				time.Sleep(5 * time.Second)
				wantServed(t, s, "create mirror-1")
				if said := log.String(); strings.Count(said, "\n") != 1 {
					t.Errorf("the log:\n%s", said)
				}
			})
		})
	}
}

// A refusal is about one pod, may pass, and is said once.
func TestARefusedMirrorIsTriedAgainRarely(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server, m *Manager, log *bytes.Buffer) {
		s.set(func() { s.fail = apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "default") })
		p := static()
		for range 3600 {
			m.Ensure(p, nil)
			time.Sleep(time.Second)
		}
		s.set(func() {
			if s.attempts < 55 || s.attempts > 140 {
				t.Errorf("%d attempts in an hour", s.attempts)
			}
			s.fail = nil
		})
		time.Sleep(time.Minute)
		wantServed(t, s, "create mirror-1")
		if said := log.String(); strings.Count(said, "\n") != 1 {
			t.Errorf("the log:\n%s", said)
		}
	})
}

func TestTheNewestDesiredStateCounts(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server, m *Manager, _ *bytes.Buffer) {
		m.Ensure(static(), nil)
		synctest.Wait()
		edited := s.mirror()
		edited.Generation = 2
		s.set(func() { s.fail = syscall.ECONNREFUSED })
		m.Ensure(static(), edited)
		synctest.Wait()
		m.Ensure(static(), s.mirror()) // another node or administrator has made the mirror anew
		s.set(func() { s.fail = nil })
		time.Sleep(time.Minute)
		wantServed(t, s, "create mirror-1")
	})
}

func TestTheManagerChecksItsConfiguration(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("an empty configuration is taken")
	}
}
