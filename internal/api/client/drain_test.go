package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/internal/api"
)

func TestDrain(t *testing.T) {
	var asked string
	end := `{"step":"DONE","left":["default/db"]}`
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String()
		_, _ = io.WriteString(w, `{"step":"BEGAN","pods":2}`+"\n"+`{"step":"STOPPED","pod":"default/web","seconds":1.5}`+"\n"+end+"\n")
	})
	var received []api.DrainEvent
	drain := func(r api.DrainRequest) ([]string, error) {
		received = nil
		return c.Drain(t.Context(), r, func(e api.DrainEvent) { received = append(received, e) })
	}
	left, err := drain(api.DrainRequest{Grace: new(int64(0)), Timeout: 90 * time.Second, KeepStatic: true})
	if err != nil || strings.Join(left, " ") != "default/db" {
		t.Errorf("got %v, %v", left, err)
	}
	if want := "POST /v1/drain?grace=0&keepStatic=true&timeout=1m30s"; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
	if len(received) != 2 || received[0].Pods != 2 || received[1].Pod != "default/web" || received[1].Seconds != 1.5 {
		t.Errorf("reported %+v", received)
	}

	end = `{"step":"FAILED","error":"it was undone"}`
	_, err = drain(api.DrainRequest{})
	wantError(t, err, "it was undone")
	if want := "POST /v1/drain?"; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}

	end = ""
	_, err = drain(api.DrainRequest{})
	wantError(t, err, "the drain ended because berth", "stopped")
}

func TestADrainIsLeft(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"step":"BEGAN"}`+"\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ctx, leave := context.WithCancel(t.Context())
	_, err := c.Drain(ctx, api.DrainRequest{}, func(api.DrainEvent) { leave() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestUndrain(t *testing.T) {
	refuse := false
	var asked string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path
		if refuse {
			http.Error(w, "the machine is shutting down", http.StatusConflict)
		}
	})
	if err := c.Undrain(t.Context()); err != nil || asked != "DELETE /v1/drain" {
		t.Errorf("asked %s, got %v", asked, err)
	}
	refuse = true
	wantError(t, c.Undrain(t.Context()), "the machine is shutting down")
}
