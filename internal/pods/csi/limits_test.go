package csi

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"berth/internal/lib/logonce"
)

// limits are those of the driver of a world, as a reporter refreshes them.
type limits struct {
	*world
	client   *fake.Clientset
	reporter *Reporter
	schedule limitSchedule
	now      time.Time
}

// newLimits has a driver that is to be asked every period; 0: never.
func newLimits(t *testing.T, period int64) *limits {
	t.Helper()
	l := &limits{
		world: newWorld(t), now: time.Now(), schedule: limitSchedule{next: map[string]time.Time{}, failures: map[string]*logonce.Streak{}},
		client: fake.NewClientset(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: disks}}),
	}
	l.setPeriod(period)
	var err error
	l.reporter, err = NewReporter(ReporterConfig{Manager: l.m, Client: l.client, Node: func() *v1.Node { return nil }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l.driver.info.MaxVolumesPerNode = 7 // after its registration
	l.after(0)
	return l
}

func (l *limits) setPeriod(seconds int64) {
	l.t.Helper()
	o := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: disks}}
	if seconds > 0 {
		o.Spec.NodeAllocatableUpdatePeriodSeconds = &seconds
	}
	if _, err := l.client.StorageV1().CSIDrivers().Update(l.t.Context(), o, metav1.UpdateOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// after is a round of the reporter after some time.
func (l *limits) after(d time.Duration) {
	l.now = l.now.Add(d)
	l.reporter.refreshLimits(l.t.Context(), &l.schedule, l.now)
}

func (l *limits) expectLimit(want int64) {
	l.t.Helper()
	drivers, _ := l.m.Drivers()
	if got := drivers[0].MaxVolumes; got != want {
		l.t.Errorf("the limit is %d, want %d", got, want)
	}
}

func TestADriverIsAskedForItsLimitAfterEachPeriod(t *testing.T) {
	l := newLimits(t, 30)
	l.expectLimit(0) // as it was registered
	l.after(29 * time.Second)
	l.expectLimit(0)
	if wait := l.schedule.wait(l.now); wait != time.Second {
		t.Errorf("the next round is after %s", wait)
	}
	l.after(time.Second)
	l.expectLimit(7)
	select {
	case <-l.m.changed:
	default:
		t.Error("the reporter does not know")
	}
	// A driver that is gone leaves nothing.
	l.m.Unregister(disks)
	l.after(time.Minute)
	if len(l.schedule.next) > 0 || len(l.schedule.failures) > 0 {
		t.Error(l.schedule)
	}
}

func TestADriverWithoutAPeriodIsNotAsked(t *testing.T) {
	l := newLimits(t, 0)
	l.after(10 * time.Minute)
	l.expectLimit(0)
	l.setPeriod(10)
	l.after(time.Minute)
	l.expectLimit(7)
}

func TestALimitThatCantBeRead(t *testing.T) {
	l := newLimits(t, 10)
	l.client.PrependReactor("get", "csidrivers", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no server")
	})
	l.after(10 * time.Second)
	l.expectLimit(0)
	if wait := l.schedule.wait(l.now); wait != periodCheckInterval {
		t.Errorf("the next round is after %s", wait)
	}
}

func TestAFullNodeHasItsDriverAsked(t *testing.T) {
	l := newLimits(t, 3600)
	l.described().AttachRequired = new(true)
	l.described().NodeAllocatableUpdatePeriodSeconds = new(int64(3600))
	r := l.request("u-1", "d-1")
	failed := &storagev1.VolumeError{Time: metav1.Now(), Message: "no slot is free", ErrorCode: new(int32(codes.ResourceExhausted))}
	l.objects.attachments[attachmentName(r.id(), "box")] = &storagev1.VolumeAttachment{Status: storagev1.VolumeAttachmentStatus{AttachError: failed}}
	l.cluster.detached = true // as long as it is not attached, the Node does not list it
	l.mountFails(r, "no slot is free")
	select {
	case <-l.m.limitsDue:
	default:
		t.Error("nothing is due")
	}
	l.after(time.Second)
	l.expectLimit(7)
	// It is asked once for each error.
	l.driver.info.MaxVolumesPerNode = 8
	l.mountFails(r, "no slot is free")
	l.after(time.Second)
	l.expectLimit(7)
	failed.Time = metav1.NewTime(failed.Time.Add(time.Second))
	l.mountFails(r, "no slot is free")
	l.after(time.Second)
	l.expectLimit(8)
	// A pod that has waited for long is to run elsewhere.
	l.m.wanted[r.id()][r.Pod.UID] = time.Now().Add(-attachTimeout)
	var limit *AttachLimitExceeded
	if err := l.failure(r, "no slot is free"); !errors.As(err, &limit) {
		t.Error("it goes on to wait:", err)
	}
	// Other errors say nothing of the limit.
	failed.Time, failed.ErrorCode = metav1.NewTime(failed.Time.Add(time.Second)), new(int32(codes.Internal))
	l.driver.info.MaxVolumesPerNode = 9
	l.mountFails(r, "no slot is free")
	l.after(time.Second)
	l.expectLimit(8)
}
