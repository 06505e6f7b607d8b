package app

import (
	"errors"
	"log/slog"
	"net"

	"berth/internal/api"
	"berth/internal/api/localapi"
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

// listenLocally opens the socket of a root directory. On a disk that has no place for one it
// is elsewhere, where commands look, too. It returns nil if there is no place at all.
func listenLocally(root string, log *slog.Logger) (net.Listener, error) {
	l, err := localapi.Listen(api.SocketPath(root), api.Group)
	if !statefile.CantWrite(err) {
		return l, err
	}
	spare, spareErr := localapi.Listen(api.SpareSocketPath(root), api.Group)
	if spareErr != nil {
		log.Error("there is no place for a local socket: commands such as 'berth get pods' can't reach this agent", "err", errors.Join(err, spareErr))
		return nil, nil
	}
	log.Warn("the local socket can't be made in the root directory: it is elsewhere until the agent is started again", "socket", api.SpareSocketPath(root), "err", err)
	return spare, nil
}
