package image

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/keyring"
)

// slow is a keyring that takes a minute for one repository.
type slow struct{ machine }

func (s slow) Lookup(ctx context.Context, repository string, p *v1.Pod) ([]keyring.Credential, error) {
	if repository != "localhost/slow" {
		return s.machine.Lookup(ctx, repository, p)
	}
	select {
	case <-time.After(time.Minute):
	case <-ctx.Done():
	}
	return nil, errors.New("credential provider x: no answer within 1m0s")
}

func TestCredentialsThatAreLongInComingKeepNoOtherPodWaiting(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		// given a pod whose credentials are long in coming
		w.Keyring, w.user = slow{}, "alice"
		ask := func() State { return w.askFor("a", "c", "localhost/slow:1", v1.PullIfNotPresent) }
		got := ask()
		w.expect(got, pod.ReasonContainerCreating)
		if time.Until(got.Until) != credentialsTimeout {
			t.Errorf("got %+v", got)
		}

		// then others come first
		w.ask("b", v1.PullIfNotPresent)
		w.expectPulls(1)

		// and it says why it waits
		time.Sleep(credentialsTimeout)
		if got := ask(); !got.Until.IsZero() || !strings.Contains(got.Message, "credential provider plugin does not answer") {
			t.Errorf("got %+v", got)
		}
		time.Sleep(30 * time.Second)
		w.expectWoken("b")

		// when they are found, or not, then it is pulled, and says why that fails
		time.Sleep(25 * time.Second)
		w.expectWoken("a")
		if got := ask(); got.Message != `Pulling image "localhost/slow:1"` || !got.Until.IsZero() {
			t.Errorf("got %+v", got)
		}
		time.Sleep(10 * time.Second)
		w.expectWoken("a")
		got = ask()
		w.expect(got, pod.ReasonErrImagePull)
		if want := "why: denied for ; credential provider x: no answer within 1m0s"; got.Message != want {
			t.Errorf("got %q, want %q", got.Message, want)
		}
	})
}

// changing is a keyring whose answers are good for a while.
type changing struct{ machine }

func (changing) Lookup(context.Context, string, *v1.Pod) ([]keyring.Credential, error) {
	return []keyring.Credential{{Username: time.Now().Format(time.TimeOnly)}}, nil
}

func TestCredentialsAreNotKeptInALongQueue(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.Keyring = changing{}
		for _, name := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
			w.askFor(pod.UID(name), "c", "localhost/app:"+name, v1.PullIfNotPresent)
		}
		time.Sleep(85 * time.Second)
		w.expectPulls(9)
		w.expectTried("00:00:00", "00:00:00", "00:00:00", "00:00:00", "00:00:00", "00:00:00", "00:00:00", "00:01:10", "00:01:20")
	})
}
