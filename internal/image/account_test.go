package image

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/keyring"
	"berth/internal/pod"
)

// exchange is a keyring that logs pods in as their service account.
type exchange struct{}

func (exchange) Account(_ context.Context, _ string, p *v1.Pod) (*keyring.Account, error) {
	if p == nil || p.Spec.ServiceAccountName == "" {
		return nil, nil
	}
	name := p.Spec.ServiceAccountName
	return &keyring.Account{Namespace: p.Namespace, Name: name, UID: "uid of " + name}, nil
}

func (e exchange) Lookup(ctx context.Context, repository string, p *v1.Pod) ([]keyring.Credential, error) {
	a, err := e.Account(ctx, repository, p)
	if a == nil {
		return nil, err
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
		w.Keyring = exchange{}

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
