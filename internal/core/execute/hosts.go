package execute

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"berth/internal/lib/atomicfile"
	"berth/internal/lib/pod"
	"berth/internal/lib/podfile"
	"berth/internal/runtime/render"
)

// hostsFileName is the file in the directory of a pod that its containers see as
// /etc/hosts. The name is the kubelet's.
const hostsFileName = "etc-hosts"

// machineHostsFile is copied into the hosts file of a pod with hostNetwork.
const machineHostsFile = "/etc/hosts"

// ensureHostsFile writes the hosts file of a pod, and returns its path. A new sandbox has
// another address, so the file is compared whenever a container is started.
func (e *Executor) ensureHostsFile(ctx context.Context, t *task) (string, error) {
	if t.hostsFile != "" {
		return t.hostsFile, nil
	}
	ips, err := e.podIPs(ctx, t)
	if err != nil {
		return "", err
	}
	var machine []byte
	if t.pod.Spec.HostNetwork {
		if machine, err = os.ReadFile(machineHostsFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("read the names of the machine: %w", err)
		}
	}
	content, err := render.HostsFile(t.pod, ips, string(machine), e.Node)
	if err != nil {
		return "", err
	}
	if err := e.writeHostsFile(t.pod.UID, content); err != nil {
		return "", fmt.Errorf("write the names of the pod: %w", err)
	}
	t.hostsFile = filepath.Join(e.podDir(t.pod.UID), hostsFileName)
	return t.hostsFile, nil
}

// writeHostsFile replaces the hosts file of a pod, readable for all users, if its content is another.
// A container that has it open never sees half of it. Changes that a container made are lost.
func (e *Executor) writeHostsFile(uid pod.UID, content string) error {
	have, err := podfile.Read(e.Host.PodsDir, filepath.Join(string(uid), hostsFileName), int64(len(content)))
	if err == nil && string(have) == content {
		return nil
	}
	return atomicfile.Replace(filepath.Join(e.podDir(uid), hostsFileName), []byte(content), 0o644)
}
