package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/volumekind"
)

func setupNFS(ctx context.Context, j *job, v *v1.Volume) (place, error) {
	if at, ok := j.alreadySetUp(v.Name); ok {
		return at, nil
	}
	return j.nfs(ctx, v.Name, v.NFS, nil, v.NFS.ReadOnly)
}

func persistentNFS(ctx context.Context, j *job, _ string, pv *v1.PersistentVolume, readOnly bool) (place, error) {
	return j.nfs(ctx, pv.Name, pv.Spec.NFS, mountOptions(pv), readOnly)
}

// remoteMountTimeout is how long a server may take. It is longer than Config.Timeout: a mount that was
// canceled and begun anew in each sync might never succeed.
const remoteMountTimeout = 2 * time.Minute

// nfs mounts the export of a server. The fsGroup is not applied: permissions are up to the server.
func (j *job) nfs(ctx context.Context, name string, s *v1.NFSVolumeSource, options []string, readOnly bool) (place, error) {
	at := place{path: j.volumePath(volumekind.NFS.Dir(), name), dir: j.volumePath(volumekind.NFS.Dir(), name), readOnly: s.ReadOnly || readOnly}
	source, err := nfsSource(s)
	if err != nil {
		return place{}, err
	}
	mounted, err := j.m.cfg.Mounter.IsMount(at.path)
	if err != nil || mounted {
		return at, err
	}
	if at.readOnly {
		options = append([]string{"ro"}, options...)
	}
	if err := os.MkdirAll(at.path, 0o750); err != nil {
		return place{}, fmt.Errorf("make its directory: %w", err)
	}
	j.task.setStep(fmt.Sprintf("mount %s", source))
	ctx, cancel := j.task.withLongTimeout(ctx, remoteMountTimeout)
	defer cancel()
	if err := j.m.cfg.Mounter.MountRemote(ctx, "nfs", source, at.path, options); err != nil {
		return place{}, fmt.Errorf("mount %s: %w", source, err)
	}
	return at, nil
}

// nfsSource returns the source argument of mount(8).
func nfsSource(s *v1.NFSVolumeSource) (string, error) {
	switch {
	case s.Server == "" || strings.HasPrefix(s.Server, "-") || strings.ContainsAny(s.Server, "/ \t\n\x00"):
		return "", fmt.Errorf("nfs server %q is not the name or address of one", s.Server)
	case !path.IsAbs(s.Path) || strings.ContainsRune(s.Path, 0):
		return "", fmt.Errorf("nfs path %q is not an absolute path", s.Path)
	}
	server := s.Server
	if strings.Contains(server, ":") && !strings.HasPrefix(server, "[") {
		server = "[" + server + "]" // an address of IPv6
	}
	return server + ":" + s.Path, nil
}

var errNoHelper = errors.New("this machine can't mount NFS: install nfs-common (Debian, Ubuntu) or nfs-utils")
