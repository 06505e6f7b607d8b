package oom

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/host/kernel"
	"berth/internal/lib/pod"
)

var appID, newID = strings.Repeat("a1", idBytes), strings.Repeat("b2", idBytes)

// rig is a Watcher of one pod, web.
type rig struct {
	*Watcher

	mu       sync.Mutex // a report may come later
	events   []string
	enqueued int
	have     pod.Observed
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{have: pod.Observed{UID: "1", Containers: []pod.Container{{ID: appID, Name: "app"}}}}
	var err error
	r.Watcher, err = New(Config{
		Victims: NewVictims(), Log: slog.New(slog.DiscardHandler),
		Observed: func() []pod.Observed {
			r.mu.Lock()
			defer r.mu.Unlock()
			return []pod.Observed{r.have}
		},
		Pod: func(uid pod.UID) (*v1.Pod, bool) {
			return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: uid}}, uid == "1"
		},
		RecordContainer: func(p *v1.Pod, container, kind, reason, message string) {
			r.record(fmt.Sprintf("%s/%s %s %s: %s", p.Name, container, kind, reason, message))
		},
		RecordNode: func(kind, reason, message string) { r.record(fmt.Sprintf("node %s %s: %s", kind, reason, message)) },
		Enqueue: func(pod.UID) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.enqueued++
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) record(event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}

func (r *rig) want(t *testing.T, events ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.events, events) {
		t.Errorf("events %q\nwant   %q", r.events, events)
	}
	r.events = nil
}

func TestAVictimIsReportedForItsContainer(t *testing.T) {
	for _, cgroup := range []string{
		"/kubepods/burstable/pod1/" + appID,
		"/kubepods/burstable/pod1/" + appID + "/made-by-the-container",
		"/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + appID + ".scope",
	} {
		r := newRig(t)
		r.killed(kernel.Victim{Name: "java", PID: 7, Cgroup: cgroup})
		r.want(t, "web/app Warning OOMKilling: The kernel killed process java (pid 7): the memory limit of its container or pod was reached")
		if got := r.Victims.Message(appID); !strings.Contains(got, "java (pid 7)") || r.enqueued != 1 {
			t.Errorf("%s: message %q, enqueued %d times", cgroup, got, r.enqueued)
		}
	}
}

func TestVictimsOutsideOfPodsAreNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for _, cgroup := range []string{"/system.slice/db.service", "/kubepods/pod1", "/kubepods/pod9/" + newID, ""} {
			r.killed(kernel.Victim{Name: "db", PID: 7, Cgroup: cgroup})
		}
		time.Sleep(time.Minute)
		r.want(t)

		r.killed(kernel.Victim{Name: "init", PID: 1, Cgroup: "/"})
		r.want(t, "node Warning SystemOOM: System OOM encountered, victim process: init, pid: 1")
	})
}

func TestAContainerThatWasJustStartedIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.killed(kernel.Victim{Name: "java", PID: 7, Cgroup: "/kubepods/pod1/" + newID})
		r.want(t)
		r.mu.Lock()
		r.have.Containers = append(r.have.Containers, pod.Container{ID: newID, Name: "late"})
		r.mu.Unlock()
		time.Sleep(observationDelay)
		synctest.Wait()
		r.want(t, "web/late Warning OOMKilling: The kernel killed process java (pid 7): the memory limit of its container or pod was reached")
	})
}

func TestManyVictimsOfOneContainerAreFewEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for pid := range 100 {
			r.killed(kernel.Victim{Name: "cc1", PID: pid, Cgroup: "/" + appID})
			time.Sleep(eventInterval / 10)
		}
		if len(r.events) != 10 {
			t.Errorf("%d events", len(r.events))
		}
		if got := r.Victims.Message(appID); got != "The kernel killed process cc1 (pid 99): the memory limit of its container or pod was reached. It killed 100 processes of this container" {
			t.Error(got)
		}
	})
}

func TestTheMemoryOfVictimsIsBounded(t *testing.T) {
	m := NewVictims()
	for i := range maxContainers + 5 {
		m.add(fmt.Sprint(i), kernel.Victim{Name: "java"})
	}
	if len(m.containers) != maxContainers || len(m.order) != maxContainers || m.Message("4") != "" || m.Message("5") == "" {
		t.Errorf("%d containers are remembered, and the order of %d", len(m.containers), len(m.order))
	}
}

func TestTheConfigurationIsChecked(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("an empty configuration is accepted")
	}
}
