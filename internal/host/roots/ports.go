package roots

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"berth/internal/lib/atomicfile"
	"berth/internal/lib/statefile"
)

// HostPort is a host port of a pod.
type HostPort struct {
	Port     int32      `json:"port"`
	Protocol string     `json:"protocol"`
	IP       netip.Addr `json:"ip"` // the zero address stands for all of them
	Pod      string     `json:"pod"`
}

// RecordPorts records the host ports of an Owner's pods, for the agents of other roots. It replaces
// the record before. The record is removed together with the claim.
func (r Registry) RecordPorts(o Owner, ports []HostPort) error {
	text, err := json.Marshal(ports)
	if err == nil {
		err = atomicfile.Replace(r.portsFile(o.claim.ID), append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("record the host ports of pods, for other agents of this machine: %w", err)
	}
	return nil
}

// ForeignPorts returns the host ports of pods of other roots in the network namespace of an
// Owner, by root directory. If there is no other root, its cost is one listing of a directory.
func (r Registry) ForeignPorts(o Owner) (map[string][]HostPort, error) {
	entries, err := os.ReadDir(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find out which host ports other root directories have: %w", err)
	}
	others := false
	for _, e := range entries {
		others = others || filepath.Ext(e.Name()) == portsExt && e.Name() != o.claim.ID+portsExt
	}
	if !others {
		return nil, nil
	}
	claims, err := r.All()
	if err != nil {
		return nil, err
	}
	out := map[string][]HostPort{}
	for _, c := range claims {
		if c.ID == o.claim.ID || c.NetNS != o.claim.NetNS || r.stale(c) {
			continue
		}
		ports, err := statefile.ReadRecord[[]HostPort](r.Dir, c.ID+portsExt)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("find out which host ports root directory %s has: %w", c.Root, err)
		}
		out[c.Root] = ports
	}
	return out, nil
}

const portsExt = ".ports"

func (r Registry) portsFile(id string) string { return filepath.Join(r.Dir, id+portsExt) }

// remove removes the files of a claim.
func (r Registry) remove(id string) error {
	for _, path := range []string{r.portsFile(id), r.file(id)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
