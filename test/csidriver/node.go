package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func (n *node) NodeGetInfo(context.Context, *spec.NodeGetInfoRequest) (*spec.NodeGetInfoResponse, error) {
	most := n.most
	if text, err := os.ReadFile(filepath.Join(n.dir, "max")); err == nil {
		if most, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err != nil {
			return nil, failed(err)
		}
	}
	return &spec.NodeGetInfoResponse{NodeId: "this-node", MaxVolumesPerNode: most}, nil
}

func (n *node) NodeGetCapabilities(context.Context, *spec.NodeGetCapabilitiesRequest) (*spec.NodeGetCapabilitiesResponse, error) {
	out := &spec.NodeGetCapabilitiesResponse{Capabilities: []*spec.NodeServiceCapability{can(spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)}}
	if n.group {
		out.Capabilities = append(out.Capabilities, can(spec.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP))
	}
	if n.expand {
		out.Capabilities = append(out.Capabilities, can(spec.NodeServiceCapability_RPC_EXPAND_VOLUME))
	}
	return out, nil
}

func can(what spec.NodeServiceCapability_RPC_Type) *spec.NodeServiceCapability {
	return &spec.NodeServiceCapability{Type: &spec.NodeServiceCapability_Rpc{Rpc: &spec.NodeServiceCapability_RPC{Type: what}}}
}

// forGroup says for which group a volume is mounted, if that was said.
func forGroup(c *spec.VolumeCapability) string {
	if group := c.GetMount().GetVolumeMountGroup(); group != "" {
		return ", group " + group
	}
	return ""
}

// withOptions names the mount options of a volume, if it has some.
func withOptions(c *spec.VolumeCapability) string {
	if options := c.GetMount().GetMountFlags(); len(options) > 0 {
		return " with " + strings.Join(options, ",")
	}
	return ""
}

func (n *node) NodeStageVolume(_ context.Context, r *spec.NodeStageVolumeRequest) (*spec.NodeStageVolumeResponse, error) {
	end, err := n.begin(r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer end()
	n.note("stage %s%s%s", r.VolumeId, forGroup(r.VolumeCapability), withOptions(r.VolumeCapability))
	if r.VolumeCapability.GetBlock() != nil {
		return &spec.NodeStageVolumeResponse{}, nil
	}
	if n.disks {
		return &spec.NodeStageVolumeResponse{}, failed(n.mountDisk(r.VolumeId, r.StagingTargetPath, r.VolumeCapability.GetMount().GetMountFlags()))
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
	if n.isRequested("refuse", r.VolumeId) {
		n.note("refused %s", r.VolumeId)
		return nil, status.Error(codes.Unavailable, "not now")
	}
	n.note("publish %s for %s%s%s", r.VolumeId, r.VolumeContext["csi.storage.k8s.io/pod.name"], forGroup(r.VolumeCapability), withOptions(r.VolumeCapability))
	if r.VolumeCapability.GetBlock() != nil {
		return &spec.NodePublishVolumeResponse{}, failed(showDevice(r.VolumeContext["device"], r.TargetPath))
	}
	if err := os.MkdirAll(r.TargetPath, 0o755); err != nil {
		return nil, failed(err)
	}
	if n.disks {
		return &spec.NodePublishVolumeResponse{}, showDirectory(r.StagingTargetPath, r.TargetPath, r.Readonly)
	}
	if err := n.show(r.VolumeId, r.TargetPath, r.Readonly); err != nil || !n.news {
		return &spec.NodePublishVolumeResponse{}, err
	}
	return &spec.NodePublishVolumeResponse{}, failed(n.writeNews(r))
}

// writeNews makes a new file, in the place of the one before.
func (n *node) writeNews(r *spec.NodePublishVolumeRequest) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.published++
	path := filepath.Join(n.data(r.VolumeId), "news")
	text := fmt.Sprintf("%d\n%s\n", n.published, r.VolumeContext["csi.storage.k8s.io/serviceAccount.tokens"])
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
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

func (n *node) NodeExpandVolume(_ context.Context, r *spec.NodeExpandVolumeRequest) (*spec.NodeExpandVolumeResponse, error) {
	end, err := n.begin(r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer end()
	if _, err := os.Stat(r.VolumePath); err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	n.note("expand %s to %d", r.VolumeId, r.CapacityRange.GetRequiredBytes())
	if text, err := os.ReadFile(filepath.Join(n.dir, "expand-"+filepath.Base(r.VolumeId))); err == nil {
		code, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
		if err != nil {
			return nil, failed(err)
		}
		return nil, status.Error(codes.Code(code), "not to this size")
	}
	return &spec.NodeExpandVolumeResponse{CapacityBytes: r.CapacityRange.GetRequiredBytes()}, nil
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
	for noted := false; n.isRequested("hang", volume); noted = true {
		if !noted {
			n.note("hanging %s", volume)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// isRequested reports whether the file DIR/WHAT-VOLUME is there, by which a test makes the driver hang or refuse.
func (n *node) isRequested(what, volume string) bool {
	_, err := os.Stat(filepath.Join(n.dir, what+"-"+filepath.Base(volume)))
	return err == nil
}

// show mounts a volume that is a directory, unless it is.
func (n *node) show(volume, path string, readOnly bool) error {
	if err := os.MkdirAll(n.data(volume), 0o777); err != nil {
		return failed(err)
	}
	return showDirectory(n.data(volume), path, readOnly)
}

// showDirectory mounts a directory on another one, unless it is.
func showDirectory(dir, path string, readOnly bool) error {
	var there, wanted unix.Stat_t
	if err := errors.Join(unix.Stat(path, &there), unix.Stat(dir, &wanted)); err != nil {
		return failed(err)
	}
	if there.Ino == wanted.Ino && there.Dev == wanted.Dev {
		return nil
	}
	if err := unix.Mount(dir, path, "", unix.MS_BIND, ""); err != nil {
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
