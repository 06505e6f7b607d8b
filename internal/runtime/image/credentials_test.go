package image

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/keyring"
)

// vault has Secrets that log in as the user of their name, and one service account.
type vault struct{ users []string }

func (v *vault) Secret(_ context.Context, p *v1.Pod, name string) (*v1.Secret, error) {
	if !slices.Contains(v.users, name) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name}, Type: v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{"localhost":{"username":"` + name + `","password":"x"}}}`)},
	}, nil
}

func (v *vault) ServiceAccount(_ context.Context, _ *v1.Pod, name string) (*v1.ServiceAccount, error) {
	if name != "builder" {
		return nil, errors.New("no such account")
	}
	return &v1.ServiceAccount{ImagePullSecrets: []v1.LocalObjectReference{{Name: "alice"}}}, nil
}

// machine is a keyring with users of the node.
type machine []string

func (machine) Account(context.Context, string, *v1.Pod) (*keyring.Account, error) { return nil, nil }

func (m machine) Lookup(context.Context, string, *v1.Pod) (out []keyring.Credential, err error) {
	for _, user := range m {
		out = append(out, keyring.Credential{Username: user})
	}
	return out, nil
}

// as is a pod that names Secrets.
func as(uid pod.UID, secrets ...string) *v1.Pod {
	p := newPod(uid)
	for _, s := range secrets {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: s})
	}
	return p
}

func (w *world) askAs(p *v1.Pod, policy v1.PullPolicy) State {
	synctest.Wait()
	return w.Ensure(w.t.Context(), p, &v1.Container{Name: "c", Image: app, ImagePullPolicy: policy})
}

// privately is a world with a registry that lets one user in.
func privately(t *testing.T, test func(w *world)) {
	t.Helper()
	dir := t.TempDir()
	inWorld(t, 4, func(w *world) {
		w.user = "alice"
		w.Objects, w.Keyring = &vault{users: []string{"alice", "bob"}}, machine{}
		w.Records = open(t, dir)
		test(w)
	})
}

func open(t *testing.T, dir string) *Records {
	t.Helper()
	return OpenRecords(dir, Policy{}, slog.New(slog.DiscardHandler))
}

func (w *world) expectTried(want ...string) {
	w.t.Helper()
	w.registry.mu.Lock()
	defer w.registry.mu.Unlock()
	if !slices.Equal(w.shown, want) {
		w.t.Fatalf("tried %q, want %q", w.shown, want)
	}
	w.shown = nil
}

func TestCredentialsAreTriedInOrder(t *testing.T) {
	privately(t, func(w *world) {
		w.Keyring = machine{"bob", "carol", "alice"}
		w.askAs(as("a", "bob"), v1.PullIfNotPresent)
		time.Sleep(40 * time.Second)
		w.expectTried("bob", "bob", "carol", "alice") // the Secret has a password, the machine's bob does not
		w.expectPresent(w.askAs(as("a", "bob"), v1.PullIfNotPresent))
		// The machine's own opens it to all.
		w.expectPresent(w.askAs(as("b"), v1.PullIfNotPresent))
	})
}

func TestAPrivateImageIsOnlyForPodsThatCouldPullIt(t *testing.T) {
	privately(t, func(w *world) {
		w.askAs(as("a", "alice"), v1.PullIfNotPresent)
		time.Sleep(10 * time.Second)
		w.expectPresent(w.askAs(as("a", "alice"), v1.PullIfNotPresent))
		w.expectPresent(w.askAs(as("b", "bob", "alice"), v1.PullIfNotPresent))
		w.expectTried("alice")

		// A pod without these credentials has to pull it, and can't.
		w.expect(w.askAs(as("c"), v1.PullNever), pod.ReasonErrImageNeverPull)
		w.expect(w.askAs(as("c"), v1.PullIfNotPresent), pod.ReasonContainerCreating)
		time.Sleep(10 * time.Second)
		w.expect(w.askAs(as("c"), v1.PullIfNotPresent), pod.ReasonErrImagePull)
		w.expectTried("")

		// The registry lets it in: so do we.
		w.set(func(r *registry) { r.user = "bob" })
		w.expect(w.askAs(as("d", "bob"), v1.PullIfNotPresent), pod.ReasonContainerCreating)
		time.Sleep(10 * time.Second)
		w.expectPresent(w.askAs(as("d", "bob"), v1.PullIfNotPresent))
		w.expectPresent(w.askAs(as("a", "alice"), v1.PullIfNotPresent))
	})
}

func TestAPreloadedImageIsForAll(t *testing.T) {
	privately(t, func(w *world) {
		w.has[app] = true
		w.expectPresent(w.askAs(as("a"), v1.PullIfNotPresent))
		w.expectPulls(0)
	})
}

func TestASecretThatIsMissingIsReportedAndDoesNotStopThePull(t *testing.T) {
	privately(t, func(w *world) {
		got := w.askAs(as("a", "nobody", "bob"), v1.PullIfNotPresent)
		if !strings.Contains(got.NoSecrets, "ns/nobody not found") {
			t.Errorf("got %+v", got)
		}
		time.Sleep(10 * time.Second)
		got = w.askAs(as("a", "nobody", "bob"), v1.PullIfNotPresent)
		w.expect(got, pod.ReasonErrImagePull)
		if want := "why: denied for bob; pull secrets: ns/nobody not found"; got.Message != want {
			t.Errorf("got %q, want %q", got.Message, want)
		}
	})
}

func TestAStaticPodHasTheSecretsOfItsServiceAccount(t *testing.T) {
	privately(t, func(w *world) {
		p := newPod("a")
		p.Annotations = map[string]string{pod.AnnotationSource: pod.SourceFile}
		p.Spec.ServiceAccountName = "builder"
		w.askAs(p, v1.PullIfNotPresent)
		time.Sleep(10 * time.Second)
		w.expectTried("alice")
	})
}

// Those who show the same share a pull, and others have their own.
func TestTheSameCredentialsShareAPull(t *testing.T) {
	privately(t, func(w *world) {
		for _, uid := range []pod.UID{"a", "b", "c"} {
			w.askAs(as(uid, "alice"), v1.PullIfNotPresent)
		}
		w.askAs(as("d", "bob"), v1.PullIfNotPresent)
		w.expectPulls(2)
	})
}

func TestRecordsOutliveTheAgent(t *testing.T) {
	dir := t.TempDir()
	alice := keyring.Credential{Username: "alice", Secret: &keyring.Secret{Namespace: "n", Name: "s", UID: "u"}}
	newer := keyring.Credential{Username: "alice", Password: "new", Secret: alice.Secret}
	bob := keyring.Credential{Username: "bob", Secret: &keyring.Secret{Namespace: "n", Name: "other", UID: "v"}}
	allows := func(r *Records, c ...keyring.Credential) bool {
		return r.Check(app, "localhost/app", "sha256:1", func() PodCredentials { return PodCredentials{List: c} }).Allows()
	}
	r := open(t, dir)
	if !allows(r) {
		t.Error("an image that nobody pulled is not for all")
	}
	if err := errors.Join(r.Begin(app, ""), r.End(app, "localhost/app", "sha256:1", alice)); err != nil {
		t.Fatal(err)
	}
	r = open(t, dir)
	if allows(r) || allows(r, bob) || !allows(r, bob, alice) || !allows(r, newer) {
		t.Error("not only those may use it who could pull it")
	}
	text, _ := os.ReadFile(filepath.Join(dir, "pulled", fileFor("sha256:1")))
	if strings.Contains(string(text), "alice") || !strings.Contains(string(text), `"kind":"ImagePulledRecord"`) {
		t.Errorf("the record is %s", text)
	}

	// The agent dies while it pulls: what came has to be shown for.
	if err := r.Begin("localhost/other:1", ""); err != nil {
		t.Fatal(err)
	}
	r = open(t, dir)
	if err := r.RecoverPulls(t.Context(), func(context.Context, string) (string, error) { return "sha256:2", nil }); err != nil {
		t.Fatal(err)
	}
	if r.Check("localhost/other:1", "localhost/other", "sha256:2", func() PodCredentials { return PodCredentials{} }).Allows() {
		t.Error("what came during a crash is for all")
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "pulling")); len(left) != 0 {
		t.Errorf("left are %v", left)
	}

	if err := r.Prune(map[string]bool{"sha256:2": true}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if !allows(r) {
		t.Error("an image that is gone is remembered")
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "pulled")); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}

func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		policy        Policy
		pulled, loose bool // whether it asks about an image that we pulled, and one that was there
	}{
		{Policy{}, true, false},
		{Policy{Verify: kubelet.NeverVerify}, false, false},
		{Policy{Verify: kubelet.AlwaysVerify}, true, true},
		{Policy{Verify: kubelet.NeverVerifyAllowlistedImages}, true, true},
		{Policy{Verify: kubelet.NeverVerifyAllowlistedImages, Allowed: []string{"localhost/*"}}, true, false},
		{Policy{Verify: kubelet.NeverVerifyAllowlistedImages, Allowed: []string{"localhost/app"}}, true, false},
		{Policy{Verify: kubelet.NeverVerifyAllowlistedImages, Allowed: []string{"localhost/ap", "localhost/app/*"}}, true, true},
	} {
		if c.policy.needsVerification("localhost/app", true) != c.pulled || c.policy.needsVerification("localhost/app", false) != c.loose {
			t.Errorf("%+v decides otherwise", c.policy)
		}
	}
}
