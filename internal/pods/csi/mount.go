package csi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"berth/internal/lib/pod"
)

// Request is a volume that a pod wants to have.
type Request struct {
	Pod    *v1.Pod
	Name   string // in the pod, or that of the persistent volume
	Driver string
	Handle string // by which the driver knows it; empty: it is made for this pod
	Dir    string // of the volume in the pod's directory

	Attributes   map[string]string
	FSType       string
	MountOptions []string
	AccessModes  []v1.PersistentVolumeAccessMode
	ReadOnly     bool
	Block        bool // it is a device, without a file system

	StageSecret, PublishSecret *v1.SecretReference

	Group int // that is to have it, or -1
	// ApplyFSGroup gives a directory to that group. Its error says so.
	ApplyFSGroup func(dir string) error
	// OnStep is told what is being done.
	OnStep func(string)
}

// ephemeral tells whether the volume is made for the pod.
func (r *Request) ephemeral() bool { return r.Handle == "" }

// id names the volume. One that is made for a pod gets a name of its own.
func (r *Request) id() volumeID {
	if r.ephemeral() {
		return volumeID{r.Driver, ephemeralHandle(r.Pod.UID, r.Name)}
	}
	return volumeID{r.Driver, r.Handle}
}

// ephemeralHandle is by which a driver knows a volume that it makes for a pod.
func ephemeralHandle(uid pod.UID, name string) string { return "csi-" + hash(string(uid)+name) }

// Mounted is a volume that a pod has.
type Mounted struct {
	Path string
	// RepublishAt is when its driver wants to be asked again; zero: never.
	RepublishAt time.Time
}

// republishInterval is how often a driver that wants it is asked to publish a volume anew.
const republishInterval = time.Minute

// Mount brings a volume to a pod. It may be called again, and does nothing if there is
// nothing to be done. With an error, it returns the place nevertheless if the pod has the
// volume, and only its renewal failed.
func (m *Manager) Mount(ctx context.Context, r Request) (Mounted, error) {
	known, err := m.publishedRecord(r.Dir)
	if err != nil {
		return Mounted{}, err
	}
	have := Mounted{Path: m.target(&r)}
	if known != nil && !known.Republish {
		return have, nil
	}
	have.RepublishAt, err = m.mount(ctx, &r, known != nil)
	if err != nil && known == nil {
		return Mounted{}, err
	}
	if err != nil {
		have.RepublishAt = time.Now().Add(republishInterval)
	}
	return have, err
}

// mount asks the driver for all that is needed, or, for a volume that the pod has, to
// publish it anew. It returns when that is due again; zero: never.
func (m *Manager) mount(ctx context.Context, r *Request, published bool) (again time.Time, err error) {
	d, err := m.driverFor(r.Driver, r.Pod.UID)
	if err != nil {
		return time.Time{}, err
	}
	j, err := m.prepare(ctx, r, d)
	if err != nil {
		return time.Time{}, err
	}
	release, err := m.lockVolume(ctx, j.id)
	if err != nil {
		return time.Time{}, err
	}
	defer release()
	if published {
		err = j.republish(ctx)
	} else {
		err = j.stageAndPublish(ctx)
	}
	return j.republishAt(), err
}

// republishAt is when the volume is to be published anew; zero: never.
func (j *job) republishAt() time.Time {
	if !j.spec.republish {
		return time.Time{}
	}
	at := time.Now().Add(republishInterval)
	if !j.tokensUntil.IsZero() && j.tokensUntil.Before(at) {
		return j.tokensUntil
	}
	return at
}

// publishedRecord returns the record of a volume that the pod has. After a reboot it has none,
// whatever the record says.
func (m *Manager) publishedRecord(dir string) (*record, error) {
	known, err := m.readRecord(dir)
	if err != nil { // it is made anew, and so is the record
		m.index.markIncomplete()
		m.warnOnce(dir, unknownVolume, err)
		return nil, nil
	}
	if known == nil || !known.Ready {
		return nil, nil
	}
	mounted, err := m.IsMount(known.target(dir))
	if err != nil || !mounted {
		return nil, err
	}
	return known, nil
}

// job is one volume on its way to one pod.
type job struct {
	m      *Manager
	r      *Request
	id     volumeID
	driver *driver
	spec   driverSpec

	attributes     map[string]string
	publishContext map[string]string // from whoever attached it
	stageSecrets   map[string]string
	publishSecrets map[string]string
	capability     *spec.VolumeCapability
	tokensUntil    time.Time
}

// stageAndPublish stages and publishes a volume. The record comes first.
func (j *job) stageAndPublish(ctx context.Context) error {
	rec := record{Name: j.r.Name, Handle: j.id.handle, Driver: j.id.driver, NotAttached: !j.attachable(), Republish: j.spec.republish}
	if !j.r.ephemeral() && j.driver.can[spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		rec.Staging = j.m.staging(j.r)
	}
	if j.r.Block {
		rec.Device = j.m.target(j.r)
	}
	if j.r.ephemeral() {
		rec.Mode = storagev1.VolumeLifecycleEphemeral
	}
	others, err := j.reserve(rec)
	if err == nil {
		err = j.m.saveCopy(j.m.copyDir(rec), rec)
	}
	if err != nil {
		return err
	}
	if rec.Staging != "" {
		staged, err := j.isStaged(others)
		if err == nil && !staged {
			err = j.stage(ctx, rec.Staging)
		}
		if err != nil {
			return err
		}
	}
	if err := j.publish(ctx); err != nil {
		return err
	}
	if err := j.applyFSGroup(); err != nil {
		return err
	}
	rec.Ready = true
	if err := j.m.save(j.r.Dir, rec); err != nil {
		return err
	}
	if j.m.wasWarned(j.r.Dir) { // it is known again
		j.m.reportInUse()
	}
	return nil
}

// republish publishes anew what a pod has, with new tokens. What the driver writes then is for
// the pod's group, too.
func (j *job) republish(ctx context.Context) error {
	if err := j.publish(ctx); err != nil {
		return err
	}
	return j.applyFSGroup()
}

// applyFSGroup gives the volume to the pod's group, if that is for us to do.
func (j *job) applyFSGroup() error {
	if !j.appliesFSGroup() {
		return nil
	}
	j.r.OnStep(fmt.Sprintf("give volume %q to group %d", j.r.Name, j.r.Group))
	return j.r.ApplyFSGroup(j.m.target(j.r))
}

// reserve writes a volume down if there is room for it, and returns the records of other pods
// that have it. One volume is placed after the other: two can't get the last place.
func (j *job) reserve(rec record) (others map[string]record, err error) {
	j.m.reserveMu.Lock()
	defer j.m.reserveMu.Unlock()
	if err := j.m.refresh(); err != nil {
		return nil, err
	}
	others = j.m.index.others(j.id, j.r.Dir)
	if err := j.checkVolumeLimit(others); err != nil {
		return nil, err
	}
	return others, j.m.save(j.r.Dir, rec)
}

// checkVolumeLimit refuses a volume that would be one too many for its driver. In a cluster, the
// scheduler counts them. Those that are made for a pod alone do not count.
func (j *job) checkVolumeLimit(others map[string]record) error {
	most := j.driver.MaxVolumes
	if most == 0 || j.m.Cluster != nil || j.r.ephemeral() {
		return nil
	}
	if len(others) == 0 && j.m.index.countVolumes(j.id.driver, j.r.Dir) >= most {
		return fmt.Errorf("CSI driver %q can have %d volumes on this node, and has them: no room for another one", j.id.driver, most)
	}
	return nil
}

// isStaged tells whether another pod has the volume since the machine was started: then
// it is staged, unless that pod has it from before the driver staged any.
func (j *job) isStaged(others map[string]record) (bool, error) {
	for dir, r := range others {
		if !r.Ready || r.Staging == "" {
			continue
		}
		if mounted, err := j.m.IsMount(r.target(dir)); err != nil || mounted {
			return mounted, err
		}
	}
	return false, nil
}

func (j *job) stage(ctx context.Context, path string) error {
	j.r.OnStep(fmt.Sprintf("stage %s", j.id))
	if err := os.MkdirAll(path, 0o750); err != nil {
		return fmt.Errorf("make a directory to stage it: %w", err)
	}
	return j.m.call(ctx, j.driver, "NodeStageVolume", func(ctx context.Context, c spec.NodeClient) error {
		_, err := c.NodeStageVolume(ctx, &spec.NodeStageVolumeRequest{
			VolumeId: j.id.handle, StagingTargetPath: path, VolumeCapability: j.capability, PublishContext: j.publishContext,
			VolumeContext: j.r.Attributes, Secrets: j.stageSecrets,
		})
		return err
	})
}

func (j *job) publish(ctx context.Context) error {
	j.r.OnStep(fmt.Sprintf("publish %s", j.id))
	target := j.m.target(j.r)
	if j.r.Block { // the driver makes the file
		if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
			return fmt.Errorf("make a directory to publish it: %w", err)
		}
	}
	request := &spec.NodePublishVolumeRequest{
		VolumeId: j.id.handle, TargetPath: target, VolumeCapability: j.capability, Readonly: j.r.ReadOnly,
		PublishContext: j.publishContext, VolumeContext: j.attributes, Secrets: j.publishSecrets,
	}
	if !j.r.ephemeral() && j.driver.can[spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		request.StagingTargetPath = j.m.staging(j.r)
	}
	return j.m.call(ctx, j.driver, "NodePublishVolume", func(ctx context.Context, c spec.NodeClient) error {
		_, err := c.NodePublishVolume(ctx, request)
		return err
	})
}

// appliesFSGroup tells whether it is for us to give the volume to the pod's group.
func (j *job) appliesFSGroup() bool {
	if j.r.Group < 0 || j.r.Block || j.r.ReadOnly || j.driverAppliesFSGroup() {
		return false
	}
	switch j.spec.fsGroupPolicy {
	case storagev1.NoneFSGroupPolicy:
		return false
	case storagev1.FileFSGroupPolicy:
		return true
	default: // a file system that only this machine has
		return j.r.FSType != "" && oneNode(j.r.AccessModes)
	}
}

// driverAppliesFSGroup tells whether the driver does that.
func (j *job) driverAppliesFSGroup() bool {
	return j.r.Group >= 0 && j.driver.can[spec.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP]
}
