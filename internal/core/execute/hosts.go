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

// machineHostsFile is what a pod on the network of the machine takes over.
const machineHostsFile = "/etc/hosts"

// ensureHostsFile writes the names of a pod down, and returns where. A new sandbox has
// another address, so it is looked at whenever something is started.
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

// writeHostsFile makes the hosts file of a pod hold content that anybody may read. It is not
// written if it does, and never seen half-written: a container may have it open. Whatever a
// container has made of it is replaced.
func (e *Executor) writeHostsFile(uid pod.UID, content string) error {
	have, err := podfile.Read(e.Host.PodsDir, filepath.Join(string(uid), hostsFileName), int64(len(content)))
	if err == nil && string(have) == content {
		return nil
	}
	return atomicfile.Replace(filepath.Join(e.podDir(uid), hostsFileName), []byte(content), 0o644)
}
