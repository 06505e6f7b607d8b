package localapi

import (
	"errors"
	"log/slog"
	"net"

	"berth/internal/api"
	"berth/internal/lib/statefile"
)

// ListenInRoot opens the socket of a root directory. On a disk that has no place for one it
// is elsewhere, where commands look, too. It returns nil if there is no place at all.
func ListenInRoot(root string, log *slog.Logger) (net.Listener, error) {
	l, err := Listen(api.SocketPath(root), api.Group)
	if !statefile.CantWrite(err) {
		return l, err
	}
	spare, spareErr := Listen(api.SpareSocketPath(root), api.Group)
	if spareErr != nil {
		log.Error("there is no place for a local socket: commands such as 'berth get pods' can't reach this agent", "err", errors.Join(err, spareErr))
		return nil, nil
	}
	log.Warn("the local socket can't be made in the root directory: it is elsewhere until the agent is started again", "socket", api.SpareSocketPath(root), "err", err)
	return spare, nil
}
