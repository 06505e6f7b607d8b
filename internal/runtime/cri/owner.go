package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
)

// Several agents may use the same runtime. Each labels its sandboxes and containers with the
// id of its root directory, and does not see those with another id, so that it can't end them.
// Pods without an id are those of an older version, of a kubelet, or made by hand.

// verdicts caches which sandboxes without an id are ours. To find that out takes a call to the
// runtime, and the answer never changes.
type verdicts struct {
	mu   sync.Mutex
	ours map[string]bool // by id of the sandbox
}

// keepOwn drops the sandboxes of other roots, and their containers. all reports whether
// sandboxes are all that the runtime has: then verdicts about others are forgotten.
func (c *Client) keepOwn(ctx context.Context, sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container, all bool,
) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container, error) {
	if c.root == "" {
		return sandboxes, containers, nil
	}
	own := map[string]bool{}
	for _, s := range sandboxes {
		ours, err := c.isOwn(ctx, s, containers)
		if err != nil {
			return nil, nil, err
		}
		own[s.Id] = ours
	}
	if all {
		c.verdicts.keep(own)
	}
	sandboxes = slices.DeleteFunc(sandboxes, func(s *runtimeapi.PodSandbox) bool { return !own[s.Id] })
	containers = slices.DeleteFunc(containers, func(item *runtimeapi.Container) bool {
		if root := item.Labels[pod.LabelRoot]; root != "" {
			return root != c.root
		}
		if ours, known := own[item.PodSandboxId]; known {
			return !ours
		}
		return c.ownsLogs != nil // its sandbox is gone, so its owner can't be found out
	})
	return sandboxes, containers, nil
}

func (c *Client) isOwn(ctx context.Context, s *runtimeapi.PodSandbox, containers []*runtimeapi.Container) (bool, error) {
	if root := s.Labels[pod.LabelRoot]; root != "" {
		return root == c.root, nil
	}
	if c.ownsLogs == nil {
		return true, nil
	}
	if s.Labels[pod.LabelPodUID] == "" {
		return false, nil // not made by a node agent
	}
	if ours, known := c.verdicts.of(s.Id); known {
		return ours, nil
	}
	dir, err := c.logsOf(ctx, s, containers)
	if err != nil {
		return false, err
	}
	ours := dir != "" && c.ownsLogs(dir)
	if dir != "" {
		c.verdicts.set(s.Id, ours)
	}
	return ours, nil
}

// logsOf finds the log directory of a pod, or "" if the runtime does not report it. It is
// the only property of a pod without an id that shows its agent.
func (c *Client) logsOf(ctx context.Context, s *runtimeapi.PodSandbox, containers []*runtimeapi.Container) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for _, item := range containers {
		if item.PodSandboxId != s.Id {
			continue
		}
		r, err := c.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: item.Id})
		if err != nil && !IsNotFound(err) {
			return "", fmt.Errorf("find out whose container %s is: %w", item.Id, err)
		}
		if path := r.GetStatus().GetLogPath(); filepath.IsAbs(path) {
			return filepath.Dir(path), nil
		}
	}
	r, err := c.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: s.Id, Verbose: true})
	if IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find out whose sandbox %s is: %w", s.Id, err)
	}
	var info struct {
		Config struct {
			LogDirectory string `json:"log_directory"`
		} `json:"config"`
	}
	if json.Unmarshal([]byte(r.GetInfo()["info"]), &info) != nil { // what is in there is up to the runtime
		return "", nil
	}
	return info.Config.LogDirectory, nil
}

func (v *verdicts) of(id string) (ours, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	ours, known = v.ours[id]
	return ours, known
}

func (v *verdicts) set(id string, ours bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ours == nil {
		v.ours = map[string]bool{}
	}
	v.ours[id] = ours
}

// keep forgets the sandboxes that do not exist any more.
func (v *verdicts) keep(there map[string]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id := range v.ours {
		if _, is := there[id]; !is {
			delete(v.ours, id)
		}
	}
}
