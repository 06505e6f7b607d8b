package image

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"berth/internal/lib/pod"
	"berth/internal/runtime/keyring"
)

// book is records, with the reference that the runtime has for the name app.
type book struct {
	*Records
	t      *testing.T
	dir    string
	policy Policy
	has    string
	log    *strings.Builder
}

func newBook(t *testing.T) *book {
	t.Helper()
	b := &book{t: t, dir: t.TempDir(), log: &strings.Builder{}}
	b.restart()
	return b
}

// restart opens the records again, as a restarted agent does.
func (b *book) restart() {
	b.t.Helper()
	b.Records = OpenRecords(b.dir, b.policy, slog.New(slog.NewTextHandler(b.log, nil)))
	b.must(b.RecoverPulls(b.t.Context(), func(_ context.Context, image string) (string, error) {
		if image != app {
			return "", errors.New("no such name")
		}
		return b.has, nil
	}))
}

func (b *book) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *book) secret(name string) keyring.Credential {
	return keyring.Credential{Username: name, Secret: &keyring.Secret{Namespace: "n", Name: name, UID: name}}
}

// expect checks whether alice may use the image, and whether all pods may.
func (b *book) expect(alice, all bool) {
	b.t.Helper()
	for _, c := range []struct {
		show []keyring.Credential
		want bool
	}{{[]keyring.Credential{b.secret("alice")}, alice}, {nil, all}} {
		if got := b.Check(app, "localhost/app", b.has, func() PodCredentials { return PodCredentials{List: c.show} }).Allows(); got != c.want {
			b.t.Errorf("with %v it is %t, want %t", c.show, got, c.want)
		}
	}
}

func (b *book) expectFiles(folder string, want int) {
	b.t.Helper()
	pulled, pulling := b.Counts()
	if counted := map[string]int{"pulled": pulled, "pulling": pulling}[folder]; counted != want {
		b.t.Errorf("%d files are counted in %s, want %d", counted, folder, want)
	}
	if left, err := os.ReadDir(filepath.Join(b.dir, folder)); err != nil || len(left) != want {
		b.t.Errorf("%s has %v, %v", folder, left, err)
	}
}

func TestWhatWasThereBeforeAPullStaysWhatItWas(t *testing.T) {
	for name, c := range map[string]struct {
		recorded bool   // whether it was pulled before, by alice
		comes    string // what is there when the agent starts again
		all      bool   // whether all may use that
	}{
		"preloaded, and nothing came":       {false, "old", true},
		"preloaded, and something new came": {false, "new", false},
		"of a secret, and nothing came":     {true, "old", false},
	} {
		t.Run(name, func(t *testing.T) {
			// given an image that is there, and a pull that hangs
			b := newBook(t)
			b.has = "old"
			if c.recorded {
				b.must(errors.Join(b.Begin(app, ""), b.End(app, "localhost/app", "old", b.secret("alice"))))
			}
			b.must(b.Begin(app, "old"))
			b.must(b.Begin("unknown", "")) // the runtime fails to look for that one

			// then it is used as before
			b.expect(true, !c.recorded)

			// when the agent dies, and starts again
			b.has = c.comes
			b.restart()

			// then it is, too, unless it is not the same any more
			b.expect(c.recorded || c.all, c.all)
			b.expectFiles("pulling", 1) // until it is known what came of that
		})
	}
}

func TestAPreloadedImageThatIsPulledStaysPreloaded(t *testing.T) {
	for _, policy := range []Policy{{}, {Verify: kubelet.AlwaysVerify}} {
		b := newBook(t)
		b.policy, b.has = policy, "old"
		b.restart()
		b.must(errors.Join(b.Begin(app, "old"), b.End(app, "localhost/app", "old", b.secret("alice"))))
		b.expect(true, policy.Verify != kubelet.AlwaysVerify)
		b.expectFiles("pulling", 0)
	}
}

func TestAnImageThatIsNotOnRecordIsForNoPod(t *testing.T) {
	// given a disk that takes no record
	b := newBook(t)
	b.has = "new"
	full := filepath.Join(b.dir, "pulled", fileFor("new")+unfinished)
	b.must(os.Mkdir(full, 0o700))

	// when a pod pulls
	b.must(b.Begin(app, ""))
	if err := b.End(app, "localhost/app", "new", b.secret("alice")); err == nil {
		t.Fatal("it was not reported")
	}

	// then no pod may use the image, by any of its names, also if another pull fails
	b.expect(false, false)
	other := func() bool {
		return b.Check("localhost/app@sha256:1", "localhost/app", "new", func() PodCredentials { return PodCredentials{} }).Allows()
	}
	if other() {
		t.Error("it is for all by another name")
	}
	b.must(b.Begin("localhost/app:other", "new"))
	b.must(b.Begin(app, "new"))
	if b.End(app, "localhost/app", "", keyring.Credential{}) == nil {
		t.Error("the record is taken for written")
	}
	b.expect(false, false)

	// also for the next agent
	b.restart()
	b.expect(false, false)
	if other() {
		t.Error("it is for all by another name")
	}

	// when there is room, then the next pull is like any other
	b.must(os.Remove(full))
	b.must(errors.Join(b.Begin(app, "new"), b.End(app, "localhost/app", "new", b.secret("alice"))))
	b.expect(true, false)
	b.restart()
	b.expect(true, false)
}

func TestBrokenFilesStopNoPod(t *testing.T) {
	for _, text := range []string{"", "{", "null", `{"image":7}`} {
		// given files that a power cut left
		b := newBook(t)
		b.has = "old"
		for _, file := range []string{"pulling/" + fileOf(app), "pulled/" + fileFor("other"), "pulling/" + fileOf("half") + unfinished} {
			b.must(os.WriteFile(filepath.Join(b.dir, file), []byte(text), 0o600))
		}

		// when the agent starts, then it does, logs it once, and no pod may use the image
		b.restart()
		for range 3 {
			b.expect(false, false)
			if b.Check("localhost/other:1", "localhost/other", "other", func() PodCredentials { return PodCredentials{} }).Allows() {
				t.Error("a broken record lets everybody in")
			}
		}
		if strings.Count(b.log.String(), "\n") != 2 {
			t.Errorf("with %q the log is:\n%s", text, b.log)
		}
		b.expectFiles("pulling", 1)

		// when they are pulled, then all is well
		b.must(errors.Join(b.Begin(app, "old"), b.End(app, "localhost/app", "old", b.secret("alice"))))
		b.must(errors.Join(b.Begin("localhost/other:1", ""), b.End("localhost/other:1", "localhost/other", "other", keyring.Credential{})))
		b.expect(true, false)
		b.expectFiles("pulling", 0)
		before := b.log.Len()
		b.restart()
		if !b.Check("localhost/other:1", "localhost/other", "other", func() PodCredentials { return PodCredentials{} }).Allows() || b.log.Len() != before {
			t.Errorf("with %q the log is:\n%s", text, b.log)
		}
	}
}

func TestAnImageThatIsLoadedIsForAll(t *testing.T) {
	for name, given := range map[string]func(b *book){
		"it was pulled": func(b *book) {
			b.must(errors.Join(b.Begin(app, ""), b.End(app, "localhost/app", "ref", b.secret("alice"))))
		},
		"its pull was cut off, and nobody knows what came": func(b *book) {
			b.must(os.WriteFile(filepath.Join(b.dir, "pulling", fileOf(app)), nil, 0o600))
			b.restart()
		},
		"it is pulled just now": func(b *book) { b.must(b.Begin(app, "")) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			b.has = "ref"
			given(b)
			b.expect(name == "it was pulled", false)

			b.must(b.Loaded(app, "ref"))

			b.expect(true, true)
			b.restart()
			b.expect(true, true)
			b.expectFiles("pulling", 0)
			b.expectFiles("pulled", 0)
		})
	}
}

func TestAPullThatHangsKeepsAPreloadedImageFromNoPod(t *testing.T) {
	privately(t, func(w *world) {
		w.has[app] = true
		w.expect(w.askAs(as("a", "alice"), v1.PullAlways), pod.ReasonContainerCreating)
		w.expectPulls(1)
		w.expectPresent(w.askAs(as("b"), v1.PullIfNotPresent))
		w.expectPresent(w.askAs(as("c"), v1.PullNever))
	})
}

func TestAnImageThatIsLoadedWakesWaitingPods(t *testing.T) {
	privately(t, func(w *world) {
		// given an image that came by a secret, and a pod that can't show it
		w.askAs(as("a", "alice"), v1.PullIfNotPresent)
		time.Sleep(10 * time.Second)
		w.expectPresent(w.askAs(as("a", "alice"), v1.PullIfNotPresent))
		w.expect(w.askAs(as("b"), v1.PullNever), pod.ReasonErrImageNeverPull)
		w.expectWoken("a")

		// when it is loaded, then it may use it
		if err := w.Loaded(w.t.Context(), []string{app, "localhost/gone:1"}); err != nil {
			t.Fatal(err)
		}
		w.expectWoken("b")
		w.expectPresent(w.askAs(as("b"), v1.PullNever))
	})
}

func TestAPullThatWasCutOffIsSettledOnceTheRuntimeAnswers(t *testing.T) {
	// given a pull that was cut off, and after which the image from before is there
	b := newBook(t)
	b.has = "sha256:1"
	b.must(b.Begin(app, b.has))
	b.Records = OpenRecords(b.dir, b.policy, slog.New(slog.DiscardHandler))

	// when the runtime does not answer, then it is to be asked again
	err := b.RecoverPulls(t.Context(), func(context.Context, string) (string, error) { return "", fmt.Errorf("look: %w", pod.ErrNoAnswer) })
	if !errors.Is(err, pod.ErrNoAnswer) {
		t.Fatalf("got %v", err)
	}

	// when it answers, then the image is what it was: preloaded
	b.must(b.RecoverPulls(t.Context(), func(context.Context, string) (string, error) { return b.has, nil }))
	b.expect(true, true)
	b.expectFiles("pulling", 0)
}
