package image

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/keyring"
)

// exchange is a keyring that logs pods in as their service account.
type exchange struct {
	away   bool  // accounts can't be read
	broken error // what comes of that
}

func (e *exchange) Account(_ context.Context, _ string, p *v1.Pod) (*keyring.Account, error) {
	if e.broken != nil {
		return nil, e.broken
	}
	a := accountFor(p)
	if a != nil && e.away {
		a.UID = ""
	}
	return a, nil
}

func accountFor(p *v1.Pod) *keyring.Account {
	if p == nil || p.Spec.ServiceAccountName == "" {
		return nil
	}
	name := p.Spec.ServiceAccountName
	return &keyring.Account{Namespace: p.Namespace, Name: name, UID: "uid of " + name}
}

func (e *exchange) Lookup(_ context.Context, _ string, p *v1.Pod) ([]keyring.Credential, error) {
	a := accountFor(p)
	if a == nil || e.away {
		return nil, nil
	}
	return []keyring.Credential{{Username: a.Name, Password: string(p.UID), Account: a}}, nil
}

// by is a pod with a service account.
func by(uid pod.UID, account string) *v1.Pod {
	p := newPod(uid)
	p.Spec.ServiceAccountName = account
	return p
}

func TestAnImageOfAServiceAccountIsForItsPods(t *testing.T) {
	privately(t, func(w *world) {
		w.Keyring = &exchange{}

		// given pods of one account, which share a pull
		for _, uid := range []pod.UID{"a", "b"} {
			w.expect(w.askAs(by(uid, "alice"), v1.PullIfNotPresent), pod.ReasonContainerCreating)
		}
		w.expectPulls(1)
		time.Sleep(10 * time.Second)
		w.expectTried("alice")
		for _, uid := range []pod.UID{"a", "b", "c"} {
			w.expectPresent(w.askAs(by(uid, "alice"), v1.PullIfNotPresent))
		}

		// when a pod of another account asks, or one without, then it has to pull, and can't
		for _, account := range []string{"bob", ""} {
			p := by(pod.UID("of "+account), account)
			w.expect(w.askAs(p, v1.PullIfNotPresent), pod.ReasonContainerCreating)
			time.Sleep(10 * time.Second)
			w.expectTried(account)
			w.expect(w.askAs(p, v1.PullIfNotPresent), pod.ReasonErrImagePull)
		}

		// when it came by a Secret as well, then both are let in
		w.askAs(as("d", "alice"), v1.PullAlways)
		time.Sleep(10 * time.Second)
		w.expectPresent(w.askAs(as("d", "alice"), v1.PullIfNotPresent))
		w.expectPresent(w.askAs(by("e", "alice"), v1.PullIfNotPresent))
	})
}

func TestAnAccountThatCannotBeReadOpensTheImageToNoOther(t *testing.T) {
	privately(t, func(w *world) {
		// given a pod whose account can be read only after it came to wait with another
		w.Keyring = &exchange{broken: errors.New("forbidden, as yet")}
		mine, other := by("a", "alice"), by("b", "")
		for _, p := range []*v1.Pod{mine, other} {
			w.expect(w.askAs(p, v1.PullIfNotPresent), pod.ReasonContainerCreating)
		}
		time.Sleep(10 * time.Second)
		w.expectTried("")

		// when it can, then the pod gets it, and the other does not
		synctest.Wait()
		w.Keyring = &exchange{}
		w.expect(w.askAs(mine, v1.PullIfNotPresent), pod.ReasonContainerCreating)
		time.Sleep(10 * time.Second)
		w.expectTried("alice")
		w.expectPresent(w.askAs(mine, v1.PullIfNotPresent))
		w.expect(w.askAs(other, v1.PullIfNotPresent), pod.ReasonContainerCreating)
		time.Sleep(10 * time.Second)
		w.expect(w.askAs(other, v1.PullIfNotPresent), pod.ReasonErrImagePull)
	})
}

func TestAnImageOfAServiceAccountWithoutAnAPIServer(t *testing.T) {
	privately(t, func(w *world) {
		// given an image that came by an account
		w.Keyring = &exchange{}
		w.askAs(by("a", "alice"), v1.PullIfNotPresent)
		time.Sleep(10 * time.Second)

		// when accounts can't be read any more, then its name is enough
		synctest.Wait()
		w.Keyring = &exchange{away: true}
		w.expectPresent(w.askAs(by("a", "alice"), v1.PullIfNotPresent))
		elsewhere := by("b", "alice")
		elsewhere.Namespace = "elsewhere"
		for _, p := range []*v1.Pod{elsewhere, by("c", "bob"), by("d", "")} {
			w.expect(w.askAs(p, v1.PullNever), pod.ReasonErrImageNeverPull)
		}

		// when they can be read again, then one of the same name is another
		synctest.Wait()
		w.Keyring = &exchange{}
		w.expectPresent(w.askAs(by("a", "alice"), v1.PullIfNotPresent))
		if covers(&kubelet.ImagePulledRecord{CredentialMapping: map[string]kubelet.ImagePullCredentials{"localhost/app": {
			KubernetesServiceAccounts: []kubelet.ImagePullServiceAccount{{Namespace: "ns", Name: "alice", UID: "old"}},
		}}}, "localhost/app", PodCredentials{Account: &keyring.Account{Namespace: "ns", Name: "alice", UID: "new"}}) {
			t.Error("an account that was made anew is let in")
		}
	})
}

func TestASlowLookAtCredentialsKeepsNoOtherWaiting(t *testing.T) {
	r := open(t, t.TempDir())
	if err := r.Begin("localhost/app:1", ""); err != nil {
		t.Fatal(err)
	}

	r.Check("localhost/app:1", "localhost/app", "ref", func() PodCredentials {
		done := make(chan error, 1)
		go func() { done <- r.Begin("localhost/other:1", "") }()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(5 * time.Second):
			t.Error("no pull could begin meanwhile")
		}
		return PodCredentials{}
	})
}
