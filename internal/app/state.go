package app

import (
	"log/slog"

	"berth/internal/lib/run"
	"berth/internal/lib/statefile"
)

// agentState writes the state files of a root directory. The agent goes on if they can't be written.
type agentState struct {
	*statefile.Keeper
	full chan struct{} // holds a value if the disk has no room and that was not received yet
}

func newAgentState(log *slog.Logger) (*agentState, error) {
	full := make(chan struct{}, 1)
	keeper, err := statefile.New(statefile.Config{Log: log, Full: func() { run.Notify(full) }})
	return &agentState{Keeper: keeper, full: full}, err
}
