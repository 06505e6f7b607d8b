package localapi

import (
	"encoding/json"
	"net/http"

	"berth/internal/api"
)

// serveWatch serves a watch: the state, and then its changes. It calls next when the client has
// read all events before, so that changes which come faster are sent as one, and no events
// queue up. next returns the events since its last call. changed has to be subscribed
// already, so that no change is missed.
func serveWatch(w http.ResponseWriter, r *http.Request, changed <-chan struct{}, next func() []api.Event) *problem {
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := json.NewEncoder(w)
	flush := http.NewResponseController(w).Flush

	for synced := false; ; synced = true {
		events := next()
		if !synced {
			events = append(events, api.Event{Type: api.Synced})
		}
		for _, e := range events {
			if err := out.Encode(e); err != nil {
				return nil // the reader is gone
			}
		}
		if err := flush(); err != nil {
			return nil
		}
		select {
		case <-r.Context().Done():
			return nil
		case _, open := <-changed:
			if !open {
				return nil
			}
		}
	}
}
