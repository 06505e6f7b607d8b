package plugins

import (
	"context"
	"io/fs"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// plugin is the information that a plugin reports of itself.
type plugin struct {
	kind, name string
	endpoint   string // of its service
	versions   []string
}

// callTimeout is how long a plugin may take for one call.
const callTimeout = 10 * time.Second

// connection is a client of the registration API of one plugin.
type connection struct {
	socket string
	conn   *grpc.ClientConn
	client registration.RegistrationClient
}

func dial(socket string) (*connection, error) {
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &connection{socket, conn, registration.NewRegistrationClient(conn)}, nil
}

func (c *connection) close() { _ = c.conn.Close() } // no call is in progress

func (c *connection) info(ctx context.Context) (plugin, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := c.client.GetInfo(ctx, &registration.InfoRequest{})
	if err != nil {
		return plugin{}, err
	}
	p := plugin{kind: info.Type, name: info.Name, endpoint: info.Endpoint, versions: info.SupportedVersions}
	if p.endpoint == "" {
		p.endpoint = c.socket
	}
	return p, nil
}

// notify informs a plugin whether it is registered.
func (c *connection) notify(ctx context.Context, refused error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	status := &registration.RegistrationStatus{PluginRegistered: refused == nil}
	if refused != nil {
		status.Error = refused.Error()
	}
	_, err := c.client.NotifyRegistrationStatus(ctx, status)
	return err
}

func socketIDOf(info fs.FileInfo) socketID {
	id := socketID{made: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id.inode = st.Ino
	}
	return id
}
