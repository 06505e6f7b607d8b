package app

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/utils/ptr"

	"berth/internal/cluster/podcert"
	"berth/internal/host/selinux"
	"berth/internal/lib/pod"
	"berth/internal/lib/run"
	"berth/internal/pods/csi"
	"berth/internal/pods/expansion"
	"berth/internal/pods/plugins"
	"berth/internal/pods/volume"
	"berth/internal/runtime/cri"
	"berth/internal/runtime/image"
	"berth/internal/runtime/imagegc"
	"berth/internal/telemetry/event"
	"berth/internal/telemetry/metrics"
)

// podServices provide images and volumes to pods.
type podServices struct {
	images  *image.Manager
	imageGC *imagegc.Collector
	drivers *csi.Manager
	plugins *plugins.Watcher
	csiNode *csi.Reporter // nil without a cluster
	volumes *volume.Manager

	certificates *podcert.Manager // nil without a cluster
}

func newPodServices(group *run.Group, d *deps, loop *syncLoop) (*podServices, error) {
	gc, err := newImageGC(d, loop.Agent)
	if err != nil {
		return nil, err
	}
	images, err := newImages(group.Context(), d, loop, gc)
	if err != nil {
		return nil, err
	}
	drivers, err := newDrivers(d, loop)
	if err != nil {
		return nil, err
	}
	watcher, err := plugins.New(plugins.Config{
		Dir: filepath.Join(d.config.RootDir, "plugins_registry"), Handlers: map[string]plugins.Handler{registration.CSIPlugin: drivers}, Log: d.log,
	})
	if err != nil {
		return nil, err
	}
	var csiNode *csi.Reporter
	if d.cluster != nil {
		csiNode, err = csi.NewReporter(csi.ReporterConfig{Manager: drivers, Client: d.cluster.clients.General, Node: d.capacity.machine.InCluster, Log: d.log})
		if err != nil {
			return nil, err
		}
	}
	certificates, err := newCertificates(d, loop)
	if err != nil {
		return nil, err
	}
	volumes, err := newVolumes(group, d, loop, drivers, images, certificates)
	if err != nil {
		return nil, err
	}
	return &podServices{
		images: images, imageGC: gc, drivers: drivers, plugins: watcher, csiNode: csiNode, volumes: volumes, certificates: certificates,
	}, nil
}

// newDrivers makes the manager of the CSI drivers of this machine.
func newDrivers(d *deps, loop *syncLoop) (*csi.Manager, error) {
	settings := csi.Config{
		PodsDir: d.podsDir, PluginsDir: filepath.Join(d.config.RootDir, "plugins"), NodeName: d.config.NodeName, Objects: loop.objects,
		OnCall: d.telemetry.Metrics.CSICalled, OnLabel: func(outcome csi.LabelOutcome, warning bool, driver, accessMode string) {
			d.telemetry.Metrics.VolumeLabelled(string(outcome), warning, driver, accessMode)
		}, IsMount: newMounter().IsMount, Enqueue: loop.Agent.Enqueue, Log: d.log,
		UnmountPath: func(ctx context.Context, path string) error {
			return newMounter().Unmount(ctx, volume.MountPoint{Path: path})
		},
	}
	if d.cluster != nil {
		settings.Cluster = d.cluster.node
	}
	return csi.New(settings)
}

// newCertificates makes the manager of the certificates of pods. It is nil without a cluster.
func newCertificates(d *deps, loop *syncLoop) (*podcert.Manager, error) {
	if d.cluster == nil {
		return nil, nil
	}
	return podcert.New(podcert.Config{
		Node: d.capacity.machine.InCluster, NodeName: d.config.NodeName, Requests: podcert.RESTRequests{Client: d.cluster.clients.General.CertificatesV1().RESTClient()},
		ServiceAccount: loop.objects.ServiceAccount, Enqueue: loop.Agent.Enqueue, Warn: d.warn, Log: d.log,
	})
}

// countCertificates counts the certificates of pods by signer and state.
func (s *podServices) countCertificates() map[metrics.PodCertificates]int {
	out := map[metrics.PodCertificates]int{}
	if s.certificates == nil {
		return out
	}
	for of, n := range s.certificates.States() {
		out[metrics.PodCertificates(of)] = n
	}
	return out
}

func newVolumes(group *run.Group, d *deps, loop *syncLoop, drivers *csi.Manager, images *image.Manager, certificates *podcert.Manager) (*volume.Manager, error) {
	settings := volume.Config{
		PodsDir: d.podsDir, Objects: loop.objects, Mounter: newMounter(), CSI: drivers, Image: images.EnsureVolume, NodeName: d.config.NodeName,
		NodeLabels: d.capacity.labels, Allocatable: d.capacity.forPods, HostIPs: d.hostIPs,
		RecursiveReadOnly: func(p *v1.Pod) bool {
			return cri.CanMountReadOnlyRecursively(d.features.Handlers(), ptr.Deref(p.Spec.RuntimeClassName, ""))
		}, OnSetUp: d.recordSetUp, Enqueue: loop.Agent.Enqueue, Log: d.log,
		Warn: d.warn, SELinuxMount: d.config.Gates.Enabled("SELinuxMount"),
		FileLabel: func(o v1.SELinuxOptions) (string, error) { return d.features.FileLabel(selinux.Label(o)) },
	}
	if d.cluster != nil {
		expander, err := newExpander(group, d, loop, drivers)
		if err != nil {
			return nil, err
		}
		settings.Expander, settings.Certificates = expander, certificates
	}
	return volume.New(settings)
}

// newExpander makes the part that expands volumes after the cluster has resized them.
func newExpander(group *run.Group, d *deps, loop *syncLoop, drivers *csi.Manager) (*expansion.Expander, error) {
	return expansion.New(expansion.Config{
		NodeName: d.config.NodeName, Drivers: drivers, Objects: loop.objects, Enqueue: loop.Agent.Enqueue, Group: group, Log: d.log,
		PatchStatus: func(ctx context.Context, namespace, name string, patch []byte) (*v1.PersistentVolumeClaim, error) {
			claims := d.cluster.clients.General.CoreV1().PersistentVolumeClaims(namespace)
			return claims.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		},
		Record: func(p *v1.Pod, claim *v1.PersistentVolumeClaim, kind, reason, message string) {
			d.events.recorder.Record(p, kind, reason, message)
			if claim != nil {
				d.events.recorder.RecordClaim(claim, kind, reason, message)
			}
		},
	})
}

// warn records a warning event of a pod.
func (d *deps) warn(p *v1.Pod, reason, message string) {
	d.events.recorder.Record(p, v1.EventTypeWarning, reason, message)
}

// recordSetUp measures the set-up of a volume, and records an event for a block device, as the kubelet does.
func (d *deps) recordSetUp(p *v1.Pod, v *v1.Volume, took time.Duration, err error) {
	d.telemetry.VolumeSetUp(p, v, took, err)
	if err == nil && pod.HasDevice(p, v.Name) {
		d.events.recorder.Record(p, v1.EventTypeNormal, event.SuccessfulMountVolume, fmt.Sprintf("MapVolume.MapPodDevice succeeded for volume %q", v.Name))
	}
}
