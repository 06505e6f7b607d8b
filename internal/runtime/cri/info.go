package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/cgroupname"
)

// Info is the status of a runtime, with its handlers and features.
type Info struct {
	// Runtime and Network say why the runtime can't make containers and why it has no
	// network for them. Both are of ErrNotReady, or nil.
	Runtime, Network error

	Handlers []Handler // sorted by name; the default handler has no name
	// SupplementalGroups reports whether the policy of a pod for supplemental groups
	// is kept.
	SupplementalGroups bool
	// HostNetworkUserNamespaces reports whether a pod on the network of the host can
	// have users of its own.
	HostNetworkUserNamespaces bool
}

// Handler is a way to run containers that a RuntimeClass can choose.
type Handler struct {
	Name                    string
	RecursiveReadOnlyMounts bool
	UserNamespaces          bool
}

// Info asks the runtime for its status. It is no error if the runtime is not ready.
func (c *Client) Info(ctx context.Context) (Info, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.runtime.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return Info{}, fmt.Errorf("ask the runtime for its status: %w", err)
	}
	info := Info{
		SupplementalGroups:        r.GetFeatures().GetSupplementalGroupsPolicy(),
		HostNetworkUserNamespaces: r.GetFeatures().GetUserNamespacesHostNetwork(),
	}
	for _, cond := range r.GetStatus().GetConditions() {
		switch {
		case cond.GetStatus():
		case cond.GetType() == runtimeapi.RuntimeReady:
			info.Runtime = notReady(cond)
		case cond.GetType() == runtimeapi.NetworkReady:
			info.Network = notReady(cond)
		}
	}
	for _, h := range r.GetRuntimeHandlers() {
		info.Handlers = append(info.Handlers, Handler{
			Name:                    h.GetName(),
			RecursiveReadOnlyMounts: h.GetFeatures().GetRecursiveReadOnlyMounts(),
			UserNamespaces:          h.GetFeatures().GetUserNamespaces(),
		})
	}
	// Runtimes list handlers in any order; sorted lists can be compared.
	slices.SortFunc(info.Handlers, func(a, b Handler) int { return strings.Compare(a.Name, b.Name) })
	return info, nil
}

// CgroupDriver asks the runtime for its cgroup driver. It is "" if the runtime does not say.
func (c *Client) CgroupDriver(ctx context.Context) (cgroupname.Driver, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.runtime.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	if IsUnimplemented(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("ask the runtime for its cgroup driver: %w", err)
	}
	if r.GetLinux() == nil { // whose zero value would be systemd
		return "", nil
	}
	switch d := r.GetLinux().GetCgroupDriver(); d {
	case runtimeapi.CgroupDriver_SYSTEMD:
		return cgroupname.Systemd, nil
	case runtimeapi.CgroupDriver_CGROUPFS:
		return cgroupname.Cgroupfs, nil
	default:
		return "", fmt.Errorf("the runtime has an unknown cgroup driver: %s", d)
	}
}

// Labels reports whether the runtime gives containers SELinux labels. Only containerd reports
// it, as part of its configuration. Other runtimes are assumed to.
func (c *Client) Labels(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.runtime.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return false, fmt.Errorf("ask the runtime for its configuration: %w", err)
	}
	config := struct{ EnableSelinux bool }{true}
	_ = json.Unmarshal([]byte(r.GetInfo()["config"]), &config) // it may be of any form
	return config.EnableSelinux, nil
}

func notReady(c *runtimeapi.RuntimeCondition) error {
	return fmt.Errorf("%s: %w: %s: %s", c.GetType(), ErrNotReady, c.GetReason(), c.GetMessage())
}

// Ready returns nil if the runtime can make containers and has a network for them.
func (c *Client) Ready(ctx context.Context) error {
	info, err := c.Info(ctx)
	switch {
	case err != nil:
		return err
	case info.Runtime != nil:
		return info.Runtime
	default:
		return info.Network
	}
}
