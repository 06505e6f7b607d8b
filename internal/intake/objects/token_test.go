package objects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// tokens makes the server hand out token 1, 2, 3 and so on.
func (s *server) tokens() (asked *[]*authenticationv1.TokenRequest) {
	asked = &[]*authenticationv1.TokenRequest{}
	s.token = func(r *authenticationv1.TokenRequest) {
		*asked = append(*asked, r.DeepCopy())
		r.Status.Token = fmt.Sprint("token-", len(*asked))
		r.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(time.Duration(*r.Spec.ExpirationSeconds) * time.Second))
	}
	return asked
}

func wantToken(t *testing.T, n *node, p *v1.Pod, audience, want string) (expires, refresh time.Time) {
	t.Helper()
	have, expires, refresh, err := n.Token(t.Context(), p, audience, 3600)
	must(t, err)
	if have != want {
		t.Errorf("have %s, want %s", have, want)
	}
	return expires, refresh
}

func TestATokenIsBoundToItsPodAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		asked := s.tokens()
		n := newNode(t, s)
		p := podWith("p")
		n.Register(p)
		expires, refresh := wantToken(t, n, p, "vault", "token-1")
		wantToken(t, n, p, "vault", "token-1")
		spec := (*asked)[0].Spec
		bound := authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "pod-p", UID: "p"}
		if *spec.BoundObjectRef != bound || *spec.ExpirationSeconds != 3600 || strings.Join(spec.Audiences, ",") != "vault" {
			t.Errorf("asked for %+v", spec)
		}
		if requests := s.asked("post"); len(requests) != 1 || requests[0] != "post serviceaccounts default/default" {
			t.Errorf("requests: %v", requests)
		}
		if life, fresh := time.Until(expires), time.Until(refresh); life != time.Hour || fresh > 48*time.Minute || fresh < 47*time.Minute+50*time.Second {
			t.Errorf("it lives for %s, and is to be refreshed in %s", life, fresh)
		}

		// Another audience, life or account is another token.
		wantToken(t, n, p, "", "token-2")
		if spec := (*asked)[1].Spec; spec.Audiences != nil {
			t.Errorf("asked for %+v", spec)
		}
		p = p.DeepCopy()
		p.Spec.ServiceAccountName = "robot"
		wantToken(t, n, p, "vault", "token-3")
		if requests := s.asked("robot"); len(requests) != 1 {
			t.Error("the account of the pod was not used")
		}
		if _, expires, _, err := n.Token(t.Context(), p, "vault", 0); err != nil || time.Until(expires) != time.Hour {
			t.Errorf("a token of no given life expires at %s: %v", expires, err)
		}

		// Unregistered, nothing of it is kept.
		n.Unregister("p")
		wantToken(t, n, p, "vault", "token-4")
		wantToken(t, n, p, "vault", "token-5")
		n.Register(p)
		wantToken(t, n, p, "vault", "token-6")
	})
}

func TestATokenIsRefreshedAtFourFifthsOfItsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.tokens()
		n := newNode(t, s)
		p := podWith("p")
		n.Register(p)
		_, refresh := wantToken(t, n, p, "", "token-1")
		time.Sleep(time.Until(refresh) - time.Second)
		wantToken(t, n, p, "", "token-1")
		time.Sleep(time.Second)
		_, refresh = wantToken(t, n, p, "", "token-2")

		// While a refresh fails, the old one is used, and not every look at the pod asks.
		time.Sleep(time.Until(refresh))
		s.fail(errDown)
		s.asked("")
		for range 600 {
			expires, refresh := wantToken(t, n, p, "", "token-2")
			if time.Until(expires) <= 0 || time.Until(refresh) <= 0 || time.Until(refresh) > time.Minute {
				t.Fatalf("it expires in %s, and is to be refreshed in %s", time.Until(expires), time.Until(refresh))
			}
			time.Sleep(time.Second)
		}
		if requests := len(s.asked("post")); requests < 10 || requests > 30 {
			t.Errorf("asked %d times in 10 minutes", requests)
		}
		if said := n.log.String(); strings.Count(said, "\n") != 1 || strings.Contains(said, "token-") {
			t.Errorf("the log:\n%s", said)
		}
		// Until it has expired.
		time.Sleep(10 * time.Minute)
		_, _, _, err := n.Token(t.Context(), p, "", 3600)
		if err == nil || !strings.Contains(err.Error(), "service account default/default for pod pod-p") || strings.Contains(err.Error(), "token-") {
			t.Errorf("have %v", err)
		}
		s.fail(nil)
		wantToken(t, n, p, "", "token-3")
		if said := n.log.String(); strings.Count(said, "\n") != 2 {
			t.Errorf("the log:\n%s", said)
		}
	})
}

// A pod may be here before all parts of the API server know that it is.
func TestATokenThatIsRefusedForAMomentIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.tokens()
		n := newNode(t, s)
		p := podWith("p")
		n.Register(p)
		began := time.Now()
		s.refuseSome(func(request string) error {
			if strings.HasPrefix(request, "post") && time.Since(began) < 300*time.Millisecond {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "default", errors.New("bound to a pod on a different node"))
			}
			return nil
		})
		wantToken(t, n, p, "", "token-1")
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}

		// One that stays refused is an error soon.
		s.refuseSome(func(string) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "default", errors.New("no"))
		})
		began = time.Now()
		if _, _, _, err := n.Token(t.Context(), p, "other", 3600); !apierrors.IsForbidden(err) || time.Since(began) > 2*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

func TestALongTokenIsRefreshedEveryDay(t *testing.T) {
	for range 100 {
		if after := refreshAfter(365 * 24 * time.Hour); after > 24*time.Hour || after < 24*time.Hour-maxTokenJitter {
			t.Fatalf("after %s", after)
		}
		if after := refreshAfter(10 * time.Second); after > 8*time.Second || after < 7*time.Second {
			t.Fatalf("after %s", after)
		}
		if after := refreshAfter(1); after < 0 {
			t.Fatalf("after %s", after)
		}
	}
}

func TestTheLifeOfATokenDoesNotDependOnTheClockOfTheServer(t *testing.T) {
	asked := time.Now()
	answer := func(token string, seconds *int64, expires time.Time) *authenticationv1.TokenRequest {
		return &authenticationv1.TokenRequest{
			Spec:   authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds},
			Status: authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(expires)},
		}
	}
	for name, c := range map[string]struct {
		answer *authenticationv1.TokenRequest
		want   time.Duration
	}{
		"clock behind": {answer("t", new(int64(600)), asked.Add(-time.Hour)), 10 * time.Minute},
		"only a time":  {answer("t", nil, asked.Add(time.Hour)), time.Hour},
		"in the past":  {answer("t", nil, asked.Add(-time.Hour)), 0},
		"none":         {answer("", new(int64(600)), asked.Add(time.Hour)), 0},
	} {
		life, err := lifeOf(c.answer, asked)
		if life != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%s: %s, %v", name, life, err)
		}
	}
}

func TestOneRequestServesAllCallersForTheSameToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		asked := s.tokens()
		n := newNode(t, s)
		p := podWith("p")
		n.Register(p)
		// Given a server that takes its time.
		s.refuseSome(func(string) error {
			time.Sleep(time.Second)
			return nil
		})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { wantToken(t, n, p, "", "token-1") })
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			time.Sleep(time.Nanosecond) // it is not the first
			if _, _, _, err := n.Token(ctx, p, "", 3600); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("have %v", err)
			}
		})
		wg.Wait()
		if len(*asked) != 1 {
			t.Errorf("%d requests", len(*asked))
		}
	})
}
