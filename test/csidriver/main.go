// Command csidriver is a CSI driver for tests. Its volumes are directories of the
// machine; what it mounts are views of them. It registers itself as drivers do, over a
// socket in the folder of plugins, and writes a line into a file for each call.
//
//	csidriver -name NAME -dir DIR -registry DIR [-max N] [-group] [-news] [-expand] [-disks]
//
// DIR gets calls.log, csi.sock and volumes/. As long as DIR/hang-VOLUME is there, the
// driver does not answer to NodePublishVolume for that volume; its log says
// "hanging VOLUME" meanwhile, and "busy VOLUME" if more is asked for it. As long as
// DIR/refuse-VOLUME is there, it refuses that, and its log says "refused VOLUME". A volume that is
// made for a pod goes with it. A volume that is wanted as a device is the device that its
// attribute "device" names.
//
// With -expand, the driver can expand volumes: its log says "expand VOLUME to BYTES". As long as
// DIR/expand-VOLUME is there, it refuses that with the gRPC code whose number is in the file. The number
// in DIR/max, if there is such a file, takes the place of -max.
//
// With -group, the driver asks for the group that it mounts for, and does nothing
// about it; its log says so. With -news, each NodePublishVolume makes a new file "news" in
// the volume that only root can read: its first line is how often that was, and the rest
// are the tokens that came with it.
//
// With -disks, volumes are file systems of their own: the driver makes DIR/volumes/VOLUME.ext4, and mounts it with the mount
// options that it gets. The log names the options of each call that has some.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func main() {
	name := flag.String("name", "", "of the driver")
	dir := flag.String("dir", "", "where all of it is")
	registry := flag.String("registry", "", "the folder of plugins")
	most := flag.Int64("max", 0, "how many volumes it can have; 0 is any")
	group := flag.Bool("group", false, "it mounts for a group")
	news := flag.Bool("news", false, "it writes a file with each call")
	expand := flag.Bool("expand", false, "it expands volumes")
	disks := flag.Bool("disks", false, "its volumes are file systems")
	flag.Parse()
	if err := run(*name, *registry, &node{dir: *dir, most: *most, group: *group, news: *news, expand: *expand, disks: *disks}); err != nil {
		fmt.Fprintln(os.Stderr, "csidriver:", err)
		os.Exit(1)
	}
}

func run(name, registry string, n *node) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if name == "" || !filepath.IsAbs(n.dir) || !filepath.IsAbs(registry) {
		return errors.New("a name, an absolute -dir and an absolute -registry are needed")
	}
	for _, d := range []string{filepath.Join(n.dir, "volumes"), registry} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(filepath.Join(n.dir, "calls.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	endpoint := filepath.Join(n.dir, "csi.sock")
	n.log, n.busy = log, map[string]bool{}

	drivers, plugins := grpc.NewServer(), grpc.NewServer()
	spec.RegisterIdentityServer(drivers, &identity{name: name})
	spec.RegisterNodeServer(drivers, n)
	registration.RegisterRegistrationServer(plugins, &plugin{name: name, endpoint: endpoint, node: n})
	failed := make(chan error, 2)
	for socket, server := range map[string]*grpc.Server{endpoint: drivers, filepath.Join(registry, name+"-reg.sock"): plugins} {
		if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		listener, err := net.Listen("unix", socket)
		if err != nil {
			return err
		}
		defer server.Stop()
		go func() { failed <- server.Serve(listener) }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// plugin is the identity service of the driver.
type plugin struct {
	registration.UnimplementedRegistrationServer
	name, endpoint string
	node           *node
}

func (p *plugin) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: p.name, Endpoint: p.endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

func (p *plugin) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	p.node.note("registered %v %s", s.PluginRegistered, s.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

type identity struct {
	spec.UnimplementedIdentityServer
	name string
}

func (i *identity) GetPluginInfo(context.Context, *spec.GetPluginInfoRequest) (*spec.GetPluginInfoResponse, error) {
	return &spec.GetPluginInfoResponse{Name: i.name, VendorVersion: "1"}, nil
}

// node does the mounting.
type node struct {
	spec.UnimplementedNodeServer
	dir    string
	most   int64
	group  bool
	news   bool
	expand bool
	disks  bool

	mu        sync.Mutex
	log       *os.File
	busy      map[string]bool // volumes
	published int             // calls
}

func (n *node) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(n.log, format+"\n", args...)
}
