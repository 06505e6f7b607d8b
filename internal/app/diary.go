package app

import (
	"context"
	"log/slog"
	"path/filepath"

	"berth/internal/cluster/kubeclient"
	"berth/internal/config"
	"berth/internal/lib/run"
	"berth/internal/lib/statefile"
	"berth/internal/telemetry/event"
)

// diary is where all that happens on this node is written down: in a file of its
// own and, in a cluster, at the API server.
type diary struct {
	store    *event.Store
	recorder *event.Recorder
	sink     *event.APISink // nil without a cluster
	// Each takes note of the end of all others: the recorder goes after whoever tells
	// it something, and the sink after the recorder.
	recording, sending *run.Group
}

// newDiary opens the diary. clients is nil without a cluster.
func newDiary(ctx context.Context, c *config.Config, clients *kubeclient.Clients, state *statefile.Keeper, log *slog.Logger) (*diary, error) {
	ctx = context.WithoutCancel(ctx) // it outlasts those who write
	d := &diary{recording: run.NewGroup(ctx, log), sending: run.NewGroup(ctx, log)}
	var err error
	d.store, err = event.OpenStore(event.StoreConfig{Path: filepath.Join(c.RootDir, "events.jsonl"), State: state, Log: log})
	if err != nil {
		return nil, err
	}
	settings := event.Config{Node: c.NodeName, Store: d.store, Log: log}
	if clients != nil {
		d.sink, err = event.NewAPISink(event.SinkConfig{Client: clients.Events.CoreV1(), Log: log})
		if err != nil {
			return nil, err
		}
		settings.Sink = d.sink.Send
		settings.Component = "kubelet" // what people and tools of a cluster look for
	}
	d.recorder, err = event.New(settings)
	return d, err
}

func (d *diary) start() {
	d.recording.Go("events", d.recorder.Run)
	if d.sink != nil {
		d.sending.Go("events to the API server", d.sink.Run)
	}
}

func (d *diary) stop() {
	d.recording.Stop()
	d.sending.Stop()
}
