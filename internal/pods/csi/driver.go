package csi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth/internal/lib/pod"
	"berth/internal/lib/run"
)

// driver is a registered driver with its connection.
type driver struct {
	Driver
	endpoint string
	conn     *grpc.ClientConn
	client   spec.NodeClient
	can      map[spec.NodeServiceCapability_RPC_Type]bool
}

// Driver is the information that a driver reports of itself.
type Driver struct {
	Name       string
	NodeID     string // the driver's name for this node
	Topology   map[string]string
	MaxVolumes int64 // per node; 0: no limit
}

// maxName is the limit of the CSI specification, in characters.
const maxName = 63

// Validate checks the registration of a driver: its name, its endpoint, its CSI versions.
func (m *Manager) Validate(name, endpoint string, versions []string) error {
	// The name is also that of a directory.
	if len(name) > maxName || len(validation.IsDNS1123Subdomain(strings.ToLower(name))) > 0 {
		return fmt.Errorf("%q is not the name of a driver: it has to be a domain name of at most %d characters", name, maxName)
	}
	if !filepath.IsAbs(endpoint) {
		return fmt.Errorf("endpoint %q is not an absolute path", endpoint)
	}
	if !slices.ContainsFunc(versions, func(v string) bool { return strings.HasPrefix(strings.TrimPrefix(v, "v"), "1.") }) {
		return fmt.Errorf("it speaks CSI %s: version 1 is needed", strings.Join(versions, ", "))
	}
	return nil
}

// infoTimeout is how long a driver may take to report its capabilities.
const infoTimeout = 10 * time.Second

// Register adds a driver, or replaces the one of the same name, and enqueues the pods that wait for
// it.
func (m *Manager) Register(ctx context.Context, name, endpoint string, _ []string) error {
	conn, err := grpc.NewClient("unix:"+endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", endpoint, err)
	}
	d := &driver{endpoint: endpoint, conn: conn, client: spec.NewNodeClient(conn), can: map[spec.NodeServiceCapability_RPC_Type]bool{}}
	d.Name = name
	if err := d.fetchInfo(ctx); err != nil {
		return errors.Join(err, conn.Close())
	}
	for _, uid := range m.addDriver(d) {
		m.Enqueue(ctx, uid)
	}
	m.unstageLeftovers(ctx, d)
	return nil
}

// unstageLeftovers unstages volumes of a driver that no pod has: an agent or a kubelet that was killed
// may have left them.
func (m *Manager) unstageLeftovers(ctx context.Context, d *driver) {
	err := m.unstageUnclaimed(ctx, "", func(name string) (*driver, error) {
		if name != d.Name {
			return nil, nil
		}
		return d, nil
	}, func(string) {})
	if err != nil {
		m.Log.Warn("a volume stays staged that no pod has", "driver", d.Name, "err", err)
	}
	m.reportInUse()
}

// fetchInfo gets the capabilities of a driver, and its name for this node.
func (d *driver) fetchInfo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	info, err := d.client.NodeGetInfo(ctx, &spec.NodeGetInfoRequest{})
	if err != nil {
		return fmt.Errorf("NodeGetInfo: %w", withoutStatus(err))
	}
	if err := d.setInfo(info); err != nil {
		return err
	}
	can, err := d.client.NodeGetCapabilities(ctx, &spec.NodeGetCapabilitiesRequest{})
	if err != nil {
		return fmt.Errorf("NodeGetCapabilities: %w", withoutStatus(err))
	}
	for _, c := range can.GetCapabilities() {
		d.can[c.GetRpc().GetType()] = true
	}
	return nil
}

// addDriver adds a driver, and returns the pods that wait for it.
func (m *Manager) addDriver(d *driver) []pod.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before := m.drivers[d.Name]; before != nil {
		_ = before.conn.Close() // calls that it still answers fail, and are made again
	}
	m.drivers[d.Name] = d
	delete(m.gone, d.Name)
	pods := slices.Sorted(maps.Keys(m.waiting[d.Name]))
	delete(m.waiting, d.Name)
	m.signalChange()
	run.Notify(m.limitsDue)
	return pods
}

// Unregister removes a driver.
func (m *Manager) Unregister(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.drivers[name]; d != nil {
		_ = d.conn.Close() // calls that it still answers fail, and are made again
		delete(m.drivers, name)
		delete(m.exhausted, name)
		m.gone[name] = true
		m.signalChange()
	}
}

// signalChange wakes the Reporter. The lock is held.
func (m *Manager) signalChange() {
	run.Notify(m.changed)
}

// Drivers returns the registered drivers, sorted by name, and the names of unregistered ones.
func (m *Manager) Drivers() (registered []Driver, gone []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.drivers)) {
		registered = append(registered, m.drivers[name].Driver)
	}
	return registered, slices.Sorted(maps.Keys(m.gone))
}

// driverFor returns a driver. If it is not registered, the pod is enqueued when it is.
func (m *Manager) driverFor(name string, uid pod.UID) (*driver, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.drivers[name]; d != nil {
		return d, nil
	}
	if m.waiting[name] == nil {
		m.waiting[name] = map[pod.UID]bool{}
	}
	m.waiting[name][uid] = true
	return nil, fmt.Errorf("CSI driver %q is not registered on this node: start it, it has to put its socket into the folder of plugins", name)
}

// Forget removes a pod from those that wait for drivers and volumes. Its records stay.
func (m *Manager) Forget(uid pod.UID) {
	m.mu.Lock()
	removeFromSets(m.waiting, uid)
	unwanted := removeFromSets(m.wanted, uid)
	m.mu.Unlock()
	if unwanted {
		m.reportInUse()
	}
}

// removeFromSets removes a pod from all sets, and reports whether one of them became empty.
func removeFromSets[K comparable, V any](sets map[K]map[pod.UID]V, uid pod.UID) bool {
	before := len(sets)
	maps.DeleteFunc(sets, func(_ K, pods map[pod.UID]V) bool {
		delete(pods, uid)
		return len(pods) == 0
	})
	return len(sets) < before
}

// call makes one call to a driver. The call goes on when the context of the caller ends.
func (m *Manager) call(ctx context.Context, d *driver, method string, do func(context.Context, spec.NodeClient) error) error {
	return m.callUntil(context.WithoutCancel(ctx), d, method, do)
}

// callUntil makes one call to a driver, which ends with the context.
func (m *Manager) callUntil(ctx context.Context, d *driver, method string, do func(context.Context, spec.NodeClient) error) error {
	ctx, cancel := context.WithTimeout(ctx, m.CallTimeout)
	defer cancel()
	began := time.Now()
	err := do(ctx, d.client)
	if m.OnCall != nil {
		m.OnCall(d.Name, method, status.Code(err).String(), isMigrated(ctx), time.Since(began))
	}
	if s, ok := status.FromError(err); ok && err != nil {
		return &CallError{Driver: d.Name, Method: method, Code: s.Code(), Message: s.Message()}
	}
	if err != nil {
		return fmt.Errorf("CSI driver %q: %s: %w", d.Name, method, err)
	}
	return nil
}

// withoutStatus returns the message and the code of a gRPC error, without its prefix.
func withoutStatus(err error) error {
	if s, ok := status.FromError(err); ok {
		return fmt.Errorf("%s (%s)", s.Message(), s.Code())
	}
	return err
}
