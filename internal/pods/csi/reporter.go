package csi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	storagev1client "k8s.io/client-go/kubernetes/typed/storage/v1"

	"berth/internal/lib/backoff"
	"berth/internal/lib/logonce"
)

// nodeIDAnnotation of a Node holds the names of the drivers for it.
const nodeIDAnnotation = "csi.volume.kubernetes.io/nodeid"

// Client is the part of a clientset that a Reporter uses.
type Client interface {
	CoreV1() corev1.CoreV1Interface
	StorageV1() storagev1client.StorageV1Interface
}

// ReporterConfig is checked by NewReporter.
type ReporterConfig struct {
	Manager *Manager
	Client  Client
	Node    func() *v1.Node // as the cluster has it; nil: not yet
	Log     *slog.Logger
}

// Reporter publishes the drivers of this machine in a CSINode object and on the Node. It is the only
// writer of the CSINode.
type Reporter struct{ ReporterConfig }

// NewReporter checks the configuration.
func NewReporter(c ReporterConfig) (*Reporter, error) {
	if c.Manager == nil || c.Client == nil || c.Node == nil || c.Log == nil {
		return nil, errors.New("report CSI drivers: manager, client, node and log are required")
	}
	return &Reporter{c}, nil
}

// retryPause is the pause after a report that failed.
var retryPause = backoff.Exponential{First: time.Second, Max: time.Minute}

const (
	// auditInterval is the time between two checks of both objects: a Node that was created anew has
	// no labels and annotations of drivers.
	auditInterval = 5 * time.Minute
	// reportTimeout is how long the API server may take.
	reportTimeout = 10 * time.Second
)

// Run publishes changes until the context ends.
func (r *Reporter) Run(ctx context.Context) {
	wait, failures, streak := time.Duration(0), 0, logonce.Streak{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.Manager.changed:
		case <-time.After(wait):
		}
		err := r.report(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errNoNode):
			wait = retryPause.First
		case err != nil:
			failures++
			wait = retryPause.After(failures)
			if streak.FailedAs(err.Error(), time.Now()) {
				r.Log.Warn("can't report the CSI drivers of this node to the API server; trying again", "err", err)
			}
		default:
			if streak.Recovered() {
				r.Log.Info("the cluster knows the CSI drivers of this node")
			}
			wait, failures = auditInterval, 0
		}
	}
}

var errNoNode = errors.New("the cluster has no Node of this machine yet")

func (r *Reporter) report(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	node := r.Node()
	if node == nil || node.UID == "" {
		return errNoNode
	}
	drivers, gone := r.Manager.Drivers()
	if err := r.annotate(ctx, node, drivers, gone); err != nil {
		return fmt.Errorf("write the node: %w", err)
	}
	if err := r.describe(ctx, node, drivers, gone); err != nil {
		return fmt.Errorf("write csinode %s: %w", node.Name, err)
	}
	return nil
}

// describe creates or updates the CSINode object.
func (r *Reporter) describe(ctx context.Context, node *v1.Node, drivers []Driver, gone []string) error {
	client := r.Client.StorageV1().CSINodes()
	have, err := client.Get(ctx, node.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err := client.Create(ctx, &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name, Annotations: map[string]string{v1.MigratedPluginsAnnotationKey: migratedPlugins()}, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID,
			}}},
			Spec: storagev1.CSINodeSpec{Drivers: csiDrivers(nil, drivers, gone)},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	want := csiDrivers(have.Spec.Drivers, drivers, gone)
	if apiequality.Semantic.DeepEqual(have.Spec.Drivers, want) && have.Annotations[v1.MigratedPluginsAnnotationKey] == migratedPlugins() {
		return nil
	}
	_, err = r.update(ctx, have, want)
	if !apierrors.IsInvalid(err) {
		return err
	}
	// Most fields of an entry can't be changed: the entry is removed, and added again.
	have, err = r.update(ctx, have, slices.DeleteFunc(slices.Clone(have.Spec.Drivers), func(d storagev1.CSINodeDriver) bool {
		return !slices.ContainsFunc(want, func(w storagev1.CSINodeDriver) bool { return apiequality.Semantic.DeepEqual(d, w) })
	}))
	if err != nil {
		return err
	}
	_, err = r.update(ctx, have, want)
	return err
}

func (r *Reporter) update(ctx context.Context, have *storagev1.CSINode, drivers []storagev1.CSINodeDriver) (*storagev1.CSINode, error) {
	changed := have.DeepCopy()
	changed.Spec.Drivers = drivers
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, v1.MigratedPluginsAnnotationKey, migratedPlugins())
	return r.Client.StorageV1().CSINodes().Update(ctx, changed, metav1.UpdateOptions{})
}

// csiDrivers returns the entries of the CSINode. Entries from before this agent stay until their
// driver is unregistered: it may be about to register.
func csiDrivers(have []storagev1.CSINodeDriver, drivers []Driver, gone []string) []storagev1.CSINodeDriver {
	byName := map[string]storagev1.CSINodeDriver{}
	for _, d := range have {
		if !slices.Contains(gone, d.Name) {
			byName[d.Name] = d
		}
	}
	for _, d := range drivers {
		entry := storagev1.CSINodeDriver{Name: d.Name, NodeID: d.NodeID, TopologyKeys: slices.Sorted(maps.Keys(d.Topology))}
		if d.MaxVolumes > 0 {
			entry.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(min(d.MaxVolumes, 1<<31-1)))}
		}
		byName[d.Name] = entry
	}
	out := []storagev1.CSINodeDriver{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out
}

// annotate writes the node IDs of drivers into an annotation of the Node, and their topology into
// labels.
func (r *Reporter) annotate(ctx context.Context, node *v1.Node, drivers []Driver, gone []string) error {
	patch, err := nodePatch(node, drivers, gone)
	if err != nil || patch == nil {
		return err
	}
	_, err = r.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// nodePatch returns nil if the Node is up to date.
func nodePatch(node *v1.Node, drivers []Driver, gone []string) ([]byte, error) {
	ids := map[string]string{}
	if text := node.Annotations[nodeIDAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &ids); err != nil {
			ids = map[string]string{} // it is not valid, so nothing can use it
		}
	}
	for _, name := range gone {
		delete(ids, name)
	}
	labels := map[string]any{}
	for _, d := range drivers {
		ids[d.Name] = d.NodeID
		for key, value := range d.Topology {
			if have, there := node.Labels[key]; !there || have != value {
				labels[key] = value
			}
		}
	}
	meta := map[string]any{}
	if len(labels) > 0 {
		meta["labels"] = labels
	}
	text, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	switch have, there := node.Annotations[nodeIDAnnotation]; {
	case len(ids) == 0 && there:
		meta["annotations"] = map[string]any{nodeIDAnnotation: nil}
	case len(ids) > 0 && have != string(text):
		meta["annotations"] = map[string]any{nodeIDAnnotation: string(text)}
	}
	if len(meta) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": meta})
}
