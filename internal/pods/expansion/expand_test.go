package expansion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/pods/csi"
)

const gib = 1 << 30

// world is a node with one volume, its driver, and the API server.
type world struct {
	t        *testing.T
	e        *Expander
	mu       sync.Mutex
	claim    *v1.PersistentVolumeClaim
	pv       *v1.PersistentVolume
	size     int64           // of the volume on this node
	cant     bool            // the driver has no NodeExpandVolume
	refuses  error           // the answer of the driver
	answers  <-chan struct{} // nil: at once
	away     error           // the answer of the API server to patches
	calls    []string        // of the driver and the API server
	reads    int             // of claims
	events   []string
	enqueued int
}

func newWorld(t *testing.T, claim *v1.PersistentVolumeClaim, pvSize string) *world {
	t.Helper()
	w := &world{t: t, claim: claim, pv: pvOf(pvSize), size: gib}
	w.claim.Spec.VolumeName = w.pv.Name
	group := run.NewGroup(t.Context(), slog.New(slog.DiscardHandler))
	t.Cleanup(group.Stop)
	var err error
	w.e, err = New(Config{
		NodeName: "box", Drivers: w, Objects: w, PatchStatus: w.patchStatus, Group: group, Log: slog.New(slog.DiscardHandler),
		Record: func(_ *v1.Pod, c *v1.PersistentVolumeClaim, kind, reason, message string) {
			w.events = append(w.events, fmt.Sprintf("%s %s %v", kind, reason, c != nil))
		},
		Enqueue: func(context.Context, pod.UID) { w.enqueued++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) CanExpand(string) bool { return !w.cant }

func (w *world) Expand(_ context.Context, e csi.Expansion) error {
	if w.answers != nil {
		<-w.answers
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cant {
		return csi.ErrCantExpand
	}
	w.calls = append(w.calls, fmt.Sprintf("expand to %d", e.Bytes/gib))
	return w.refuses
}

func (w *world) Size(string, string) (int64, error) { return w.size, nil }

func (w *world) SetSize(_ context.Context, _, _ string, bytes int64) error {
	w.size = bytes
	return nil
}

func (w *world) PersistentVolumeClaim(context.Context, *v1.Pod, string) (*v1.PersistentVolumeClaim, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	return w.claim.DeepCopy(), nil
}

func (w *world) PersistentVolume(context.Context, *v1.Pod, string) (*v1.PersistentVolume, error) {
	return w.pv, nil
}

// patchStatus applies a patch as an API server does.
func (w *world) patchStatus(_ context.Context, _, _ string, patch []byte) (*v1.PersistentVolumeClaim, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away != nil {
		return nil, w.away
	}
	have, err := json.Marshal(w.claim)
	if err != nil {
		return nil, err
	}
	got := &v1.PersistentVolumeClaim{}
	have, err = strategicpatch.StrategicMergePatch(have, patch, got)
	if err == nil {
		err = json.Unmarshal(have, got)
	}
	if err != nil {
		return nil, err
	}
	if got.ResourceVersion != w.claim.ResourceVersion {
		return nil, errors.New("conflict")
	}
	got.ResourceVersion += "1"
	w.claim = got
	w.calls = append(w.calls, w.state())
	return got.DeepCopy(), nil
}

// state returns the status of the claim in a few words.
func (w *world) state() string {
	var words []string
	if s := w.claim.Status.AllocatedResourceStatuses[v1.ResourceStorage]; s != "" {
		words = append(words, string(s))
	}
	for _, c := range w.claim.Status.Conditions {
		words = append(words, string(c.Type))
	}
	return strings.Join(append(words, w.claim.Status.Capacity.Storage().String()), " ")
}

func (w *world) volume(uid string) Volume {
	p := &v1.Pod{}
	p.Namespace, p.Name, p.UID = "shop", "web", pod.UID(uid)
	return Volume{Pod: p, Claim: "data", PV: w.pv, Dir: "/pods/" + uid}
}

func (w *world) expect(calls ...string) {
	w.t.Helper()
	if !slices.Equal(w.calls, calls) {
		w.t.Errorf("calls: %q, want %q", w.calls, calls)
	}
	w.calls = nil
}

func (w *world) expectEvents(events ...string) {
	w.t.Helper()
	if !slices.Equal(w.events, events) {
		w.t.Errorf("events: %q, want %q", w.events, events)
	}
	w.events = nil
}

// online is one sync of a pod that has the volume.
func (w *world) online() time.Time {
	again := w.e.Online(w.volume("u-1"))
	synctest.Wait()
	return again
}

func refusal(code codes.Code) error { return &csi.CallError{Code: code, Message: "no"} }

const (
	pending   = v1.PersistentVolumeClaimNodeResizePending
	succeeded = "Normal FileSystemResizeSuccessful true"
	failedPod = "Warning VolumeResizeFailed false"
)

func TestAVolumeGrowsWhileItIsMounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim := claimOf("1Gi", "2Gi", pending)
		claim.Status.Conditions = []v1.PersistentVolumeClaimCondition{
			{Type: v1.PersistentVolumeClaimFileSystemResizePending, Status: v1.ConditionTrue}, {Type: "Other", Status: v1.ConditionTrue},
		}
		w := newWorld(t, claim, "2Gi")
		again := w.online()
		w.expect("NodeResizeInProgress FileSystemResizePending Other 1Gi", "expand to 2", "Other 2Gi")
		w.expectEvents(succeeded)
		if wait := time.Until(again); wait < time.Minute || wait > 90*time.Second {
			t.Errorf("the claim is read again after %s", wait)
		}
		// The claim is not read at every sync, and the volume is expanded once.
		w.online()
		time.Sleep(2 * time.Minute)
		w.online()
		w.expect()
		if w.reads != 2 || w.size != 2*gib {
			t.Errorf("the claim was read %d times, the volume has %d bytes", w.reads, w.size)
		}
	})
}

func TestARunningPodDoesNotWaitForAnExpansion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		w := newWorld(t, claimOf("1Gi", "2Gi", pending), "2Gi")
		w.answers = answers
		w.online()
		time.Sleep(10 * time.Minute)
		w.online() // while the driver is at work, no second call begins
		close(answers)
		synctest.Wait()
		w.expect("NodeResizeInProgress 1Gi", "expand to 2", "2Gi")
	})
}

func TestAnExpansionThatFailsIsTriedAgainAfterGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, claimOf("1Gi", "2Gi", pending), "2Gi")
		w.refuses = refusal(codes.Unavailable)
		w.online()
		w.expect("NodeResizeInProgress 1Gi", "expand to 2")
		w.expectEvents(failedPod)
		for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			again := w.online() // it was enqueued
			if got := time.Until(again); got != pause {
				t.Fatalf("pause %s, want %s", got, pause)
			}
			w.expect()
			time.Sleep(pause)
			w.online()
			w.expect("expand to 2")
		}
		if w.enqueued != 4 {
			t.Errorf("enqueued %d times", w.enqueued)
		}
		w.refuses, w.events = nil, nil
		time.Sleep(time.Minute)
		w.online()
		w.expect("expand to 2", "2Gi")
		w.expectEvents(succeeded)
	})
}

func TestAFinalFailureIsOnTheClaimUntilItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, claimOf("1Gi", "2Gi", pending), "2Gi")
		w.refuses = refusal(codes.Internal)
		w.online()
		w.expect("NodeResizeInProgress 1Gi", "expand to 2", "NodeResizeInProgress NodeResizeError 1Gi")
		if c := w.claim.Status.Conditions[0]; !strings.Contains(c.Message, "failed to expand pvc with") || c.Status != v1.ConditionTrue {
			t.Errorf("the condition is %+v", c)
		}
		w.refuses = nil
		time.Sleep(time.Minute)
		w.online()
		w.expect("expand to 2", "2Gi")
	})
}

func TestASizeThatIsNotPossibleIsLeftToTheResizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, claimOf("1Gi", "2Gi", pending), "2Gi")
		w.refuses = refusal(codes.OutOfRange)
		w.online()
		w.expect("NodeResizeInProgress 1Gi", "expand to 2", "NodeResizeInfeasible NodeResizeError 1Gi")
		time.Sleep(10 * time.Minute)
		w.online()
		w.expect() // it is not tried again
		// The resizer recovers with a smaller size.
		w.claim.Status.AllocatedResources = storage("1536Mi")
		w.claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] = pending
		w.refuses = nil
		time.Sleep(2 * time.Minute)
		w.online()
		w.expect("NodeResizeInProgress NodeResizeError 1Gi", "expand to 1", "1536Mi")
	})
}

func TestAUserWhoWantsAnotherSizeAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, claimOf("1Gi", "2Gi", pending), "2Gi")
		w.refuses = refusal(codes.Internal)
		w.online()
		w.claim.Spec.Resources.Requests = storage("1500Mi")
		w.calls = nil
		time.Sleep(time.Minute)
		w.online()
		w.expect("expand to 2", "NodeResizeInfeasible NodeResizeError 1Gi")
	})
}

func TestADriverThatCantExpandVolumesInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, claimOf("1Gi", "2Gi", pending), "2Gi")
		w.refuses = refusal(codes.FailedPrecondition)
		w.online()
		w.expect("NodeResizeInProgress 1Gi", "expand to 2", "NodeResizeInProgress NodeResizeError 1Gi")
		w.expectEvents() // it is no failure of the pod
		time.Sleep(10 * time.Minute)
		if again := w.online(); !again.IsZero() {
			t.Error("it is to be tried again at", again)
		}
		w.expect()
		// When it is mounted again, nothing uses it.
		w.e.Forget("u-1")
		w.refuses = nil
		if err := w.e.AtMount(t.Context(), w.volume("u-2"), w.claim); err != nil {
			t.Fatal(err)
		}
		w.expect("expand to 2", "2Gi")
	})
}

func TestASharedVolumeIsExpandedOnceOnEachNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, shared(claimOf("2Gi", "2Gi", "")), "2Gi") // another node reported the size
		w.online()
		w.expect("expand to 2")
		time.Sleep(2 * time.Minute)
		w.online()
		w.expect()
	})
}

func TestAVolumeOfAnOldResizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, claimOf("1Gi", "", ""), "2Gi")
		w.refuses = refusal(codes.Internal)
		w.online()
		w.expect("expand to 2") // it knows no conditions of nodes
		w.refuses = nil
		time.Sleep(time.Minute)
		w.online()
		w.expect("expand to 2", "2Gi")
	})
}

func TestASizeThatCouldNotBeReportedIsReportedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, claimOf("1Gi", "", ""), "2Gi")
		w.away = errors.New("no server")
		w.online()
		w.expect("expand to 2")
		if w.size != gib {
			t.Error("the size counts as reported")
		}
		w.away = nil
		time.Sleep(time.Minute)
		w.online()
		w.expect("expand to 2", "2Gi")
	})
}

func TestARecordWithoutASizeGetsThatOfTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, claimOf("1Gi", "2Gi", pending), "2Gi")
		w.size = 0
		w.online()
		w.expect("NodeResizeInProgress 1Gi", "expand to 2", "2Gi")
	})
}

func TestVolumesThatAreNotExpandedOnline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, claimOf("1Gi", "2Gi", pending), "2Gi")
		readOnly := w.volume("u-1")
		readOnly.ReadOnly = true
		if again := w.e.Online(readOnly); !again.IsZero() {
			t.Error("a read-only volume is looked at", again)
		}
		w.cant = true
		if again := w.online(); !again.IsZero() || w.reads > 0 {
			t.Error("a volume of a driver without NodeExpandVolume is looked at", again)
		}
		w.expect()
	})
}

func TestAVolumeGrowsBeforeAPodGetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, claimOf("1Gi", "2Gi", pending), "2Gi")
		w.refuses = refusal(codes.Internal)
		if err := w.e.AtMount(t.Context(), w.volume("u-1"), w.claim.DeepCopy()); err == nil {
			t.Error("a failure is none")
		}
		w.refuses, w.calls = nil, nil
		if err := w.e.AtMount(t.Context(), w.volume("u-1"), w.claim.DeepCopy()); err != nil {
			t.Error(err)
		}
		w.expect("expand to 2", "2Gi")
		w.expectEvents(succeeded)
		// The next pod finds it large enough, and the claim was read only just now.
		if err := w.e.AtMount(t.Context(), w.volume("u-2"), w.claim.DeepCopy()); err != nil {
			t.Error(err)
		}
		w.online()
		w.expect()
		if w.reads != 0 {
			t.Errorf("the claim was read %d times", w.reads)
		}
	})
}

func TestAVolumeThatIsOnlyReadDoesNotGrow(t *testing.T) {
	w := newWorld(t, claimOf("1Gi", "2Gi", pending), "2Gi")
	v := w.volume("u-1")
	v.ReadOnly = true
	if err := w.e.AtMount(t.Context(), v, w.claim); err != nil {
		t.Error(err)
	}
	w.expect()
	w.expectEvents("Warning FileSystemResizeFailed true")
}

func TestADriverThatLacksWhatTheResizerAskedFor(t *testing.T) {
	w := newWorld(t, claimOf("1Gi", "2Gi", pending), "2Gi")
	w.cant = true
	if err := w.e.AtMount(t.Context(), w.volume("u-1"), w.claim); !errors.Is(err, csi.ErrCantExpand) {
		t.Error(err)
	}
	w.expect("NodeResizeInProgress 1Gi", "NodeResizeInProgress NodeResizeError 1Gi")
	// An old resizer may not have asked for it.
	w = newWorld(t, claimOf("1Gi", "", ""), "2Gi")
	w.cant = true
	if err := w.e.AtMount(t.Context(), w.volume("u-1"), w.claim); err != nil {
		t.Error(err)
	}
	w.expect()
}

func TestNothingIsRememberedOfAVolumeThatNoPodHas(t *testing.T) {
	w := newWorld(t, claimOf("2Gi", "", ""), "2Gi")
	for _, uid := range []string{"u-1", "u-2"} {
		if err := w.e.AtMount(t.Context(), w.volume(uid), w.claim); err != nil {
			t.Fatal(err)
		}
	}
	w.e.Forget("u-1")
	if len(w.e.volumes) != 1 {
		t.Error("a volume that a pod has was forgotten")
	}
	w.e.Forget("u-2")
	if len(w.e.volumes) != 0 {
		t.Error("left:", w.e.volumes)
	}
}

func TestAnEmptyPatchIsNotSent(t *testing.T) {
	c := claimOf("2Gi", "", "")
	if patch, err := statusPatch(c, markFinished(c, resource.MustParse("2Gi")), true); patch != nil || err != nil {
		t.Errorf("%s %v", patch, err)
	}
}

func TestAClaimThatWasChangedMeanwhileIsLeftAlone(t *testing.T) {
	w := newWorld(t, claimOf("1Gi", "2Gi", pending), "2Gi")
	old := w.claim.DeepCopy()
	w.claim.ResourceVersion = "2"
	if err := w.e.AtMount(t.Context(), w.volume("u-1"), old); err == nil || !strings.Contains(err.Error(), "conflict") {
		t.Error(err)
	}
	w.expect()
}
