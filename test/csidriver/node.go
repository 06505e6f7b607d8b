package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func (n *node) NodeGetInfo(context.Context, *spec.NodeGetInfoRequest) (*spec.NodeGetInfoResponse, error) {
	return &spec.NodeGetInfoResponse{NodeId: "this-node", MaxVolumesPerNode: n.most}, nil
}

func (n *node) NodeGetCapabilities(context.Context, *spec.NodeGetCapabilitiesRequest) (*spec.NodeGetCapabilitiesResponse, error) {
	return &spec.NodeGetCapabilitiesResponse{Capabilities: []*spec.NodeServiceCapability{{
		Type: &spec.NodeServiceCapability_Rpc{Rpc: &spec.NodeServiceCapability_RPC{Type: spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}},
	}}}, nil
}

func (n *node) NodeStageVolume(_ context.Context, r *spec.NodeStageVolumeRequest) (*spec.NodeStageVolumeResponse, error) {
	end, err := n.begin(r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer end()
	n.note("stage %s", r.VolumeId)
	if r.VolumeCapability.GetBlock() != nil {
		return &spec.NodeStageVolumeResponse{}, nil
	}
	return &spec.NodeStageVolumeResponse{}, n.show(r.VolumeId, r.StagingTargetPath, false)
}

func (n *node) NodeUnstageVolume(_ context.Context, r *spec.NodeUnstageVolumeRequest) (*spec.NodeUnstageVolumeResponse, error) {
	end, err := n.begin(r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer end()
	n.note("unstage %s", r.VolumeId)
	return &spec.NodeUnstageVolumeResponse{}, failed(unmount(r.StagingTargetPath))
}

func (n *node) NodePublishVolume(_ context.Context, r *spec.NodePublishVolumeRequest) (*spec.NodePublishVolumeResponse, error) {
	end, err := n.begin(r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer end()
	n.hang(r.VolumeId)
	n.note("publish %s for %s", r.VolumeId, r.VolumeContext["csi.storage.k8s.io/pod.name"])
	if r.VolumeCapability.GetBlock() != nil {
		return &spec.NodePublishVolumeResponse{}, failed(showDevice(r.VolumeContext["device"], r.TargetPath))
	}
	if err := os.MkdirAll(r.TargetPath, 0o755); err != nil {
		return nil, failed(err)
	}
	return &spec.NodePublishVolumeResponse{}, n.show(r.VolumeId, r.TargetPath, r.Readonly)
}

func (n *node) NodeUnpublishVolume(_ context.Context, r *spec.NodeUnpublishVolumeRequest) (*spec.NodeUnpublishVolumeResponse, error) {
	end, err := n.begin(r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer end()
	n.note("unpublish %s", r.VolumeId)
	err = unmount(r.TargetPath)
	if err == nil {
		err = os.Remove(r.TargetPath)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil && strings.HasPrefix(r.VolumeId, "csi-") { // made for a pod
		err = os.RemoveAll(n.data(r.VolumeId))
	}
	return &spec.NodeUnpublishVolumeResponse{}, failed(err)
}

func (n *node) data(volume string) string {
	return filepath.Join(n.dir, "volumes", filepath.Base(volume))
}

// begin refuses what is asked for while something else is done to the same volume.
func (n *node) begin(volume string) (end func(), err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.busy[volume] {
		fmt.Fprintf(n.log, "busy %s\n", volume) // note would wait for us
		return nil, status.Error(codes.Aborted, "something else is being done to this volume")
	}
	n.busy[volume] = true
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.busy, volume)
	}, nil
}

// hang waits as long as the tests want it to.
func (n *node) hang(volume string) {
	for told := false; ; told = true {
		if _, err := os.Stat(filepath.Join(n.dir, "hang-"+filepath.Base(volume))); err != nil {
			return
		}
		if !told {
			n.note("hanging %s", volume)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// show mounts a volume, unless it is.
func (n *node) show(volume, path string, readOnly bool) error {
	if err := os.MkdirAll(n.data(volume), 0o777); err != nil {
		return failed(err)
	}
	var there, wanted unix.Stat_t
	if err := errors.Join(unix.Stat(path, &there), unix.Stat(n.data(volume), &wanted)); err != nil {
		return failed(err)
	}
	if there.Ino == wanted.Ino && there.Dev == wanted.Dev {
		return nil
	}
	if err := unix.Mount(n.data(volume), path, "", unix.MS_BIND, ""); err != nil {
		return failed(err)
	}
	if readOnly {
		return failed(unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	}
	return nil
}

// showDevice mounts a device on a file, unless it is.
func showDevice(device, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	var there, wanted unix.Stat_t
	if err := errors.Join(unix.Stat(path, &there), unix.Stat(device, &wanted)); err != nil || there.Rdev == wanted.Rdev {
		return err
	}
	return unix.Mount(device, path, "", unix.MS_BIND, "")
}

// unmount is fine if nothing is mounted there.
func unmount(path string) error {
	for {
		err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func failed(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codes.Internal, err.Error())
}
