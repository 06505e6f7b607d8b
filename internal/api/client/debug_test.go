package client

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestDebug(t *testing.T) {
	var asked string
	var got v1.EphemeralContainer
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		if got.Image == "" {
			http.Error(w, "no image", http.StatusConflict)
		}
	})
	p := running("web")
	add := v1.EphemeralContainer{TargetContainerName: "app"}
	add.Name = "debugger"
	wantError(t, c.Debug(t.Context(), &p, add), "no image")
	add.Image = "localhost/tools:1"
	if err := c.Debug(t.Context(), &p, add); err != nil || asked != "POST /v1/namespaces/x/pods/web/ephemeralcontainers" {
		t.Errorf("got %v, asked for %s", err, asked)
	}
	if got.Name != "debugger" || got.TargetContainerName != "app" {
		t.Errorf("asked for %+v", got)
	}
}

func TestWaitForAContainer(t *testing.T) {
	w := newWorld()
	c := w.serve(t)
	with := func(s v1.ContainerState) v1.Pod {
		p := running("web")
		p.Status.EphemeralContainerStatuses = []v1.ContainerStatus{{Name: "debugger", State: s}}
		return p
	}
	p := running("web")
	// It starts and ends, one after the other
	started := make(chan error, 1)
	go func() {
		now, err := c.Started(t.Context(), &p, "debugger")
		if err == nil && now.Status.EphemeralContainerStatuses[0].State.Running == nil {
			err = io.ErrUnexpectedEOF
		}
		started <- err
	}()
	w.set(with(v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}))
	w.set(with(v1.ContainerState{Running: &v1.ContainerStateRunning{}}))
	if err := <-started; err != nil {
		t.Error(err)
	}
	w.set(with(v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 7}}))
	if s, err := c.Ended(t.Context(), &p, "debugger"); err != nil || s.ExitCode != 7 {
		t.Errorf("got %+v, %v", s, err)
	}
	// It can't be started
	w.set(with(v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}))
	_, err := c.Started(t.Context(), &p, "debugger")
	wantError(t, err, "container debugger of pod web is waiting: ErrImagePull: not found")
	// The pod goes
	gone := make(chan error, 1)
	w.set(with(v1.ContainerState{}))
	go func() {
		_, err := c.Started(t.Context(), &p, "debugger")
		gone <- err
	}()
	w.set()
	wantError(t, <-gone, "pod web is gone")
}
