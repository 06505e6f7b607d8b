package client

import (
	"io"
	"net/http"
	"testing"

	"berth/internal/api"
)

func TestEvents(t *testing.T) {
	var asked string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		if r.URL.Query().Get("watch") == "" {
			_, _ = io.WriteString(w, `{"items":[{"reason":"Started"}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"type":"ADDED","event":{"reason":"Started"}}`+"\n"+`{"type":"SYNCED"}`+"\n")
	})
	f := EventFilter{Namespace: "x", Pod: "web", UID: "u"}
	list, err := c.Events(t.Context(), f)
	if err != nil || len(list.Items) != 1 || list.Items[0].Reason != "Started" {
		t.Errorf("got %+v (%v)", list, err)
	}
	if want := "/v1/events?namespace=x&pod=web&uid=u"; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
	var received []api.Event
	err = c.WatchEvents(t.Context(), f, func(e api.Event) error { received = append(received, e); return nil })
	wantError(t, err, "the watch ended because berth", "stopped")
	if len(received) != 2 || received[0].Event.Reason != "Started" || received[1].Type != api.Synced {
		t.Errorf("reported %+v", received)
	}
	if want := "/v1/events?namespace=x&pod=web&uid=u&watch=1"; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
	if got := (EventFilter{}).query().Encode(); got != "" {
		t.Errorf("a filter of nothing asks %q", got)
	}
}
