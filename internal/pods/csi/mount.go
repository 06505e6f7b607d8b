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

// Request is a volume to be mounted for a pod.
type Request struct {
	Pod    *v1.Pod
	Name   string // of the volume in the pod, or of the PersistentVolume
	Driver string
	Handle string // volumeHandle; empty: an ephemeral volume
	Dir    string // below the pod's directory

	Attributes   map[string]string
	FSType       string
	MountOptions []string
	AccessModes  []v1.PersistentVolumeAccessMode
	ReadOnly     bool
	Block        bool // volumeMode Block
	Migrated     bool // the volume was of another kind, and is translated to one of the driver

	StageSecret, PublishSecret *v1.SecretReference

	Group int // fsGroup, or -1
	// ApplyFSGroup gives the files of a directory to the group.
	ApplyFSGroup func(dir string) error
	// SELinuxLabel returns the label for the mount option context, if the driver has seLinuxMount; "": none. It
	// may be nil.
	SELinuxLabel func() (Label, error)
	// Size is that of the claim of a persistent volume, in bytes; 0: it is not known.
	Size int64
	// Expand is called when the volume has been published. If it fails, the volume is not mounted yet, and
	// is published again. It may be nil.
	Expand func(ctx context.Context) error
	// OnStep is called with a description of each step.
	OnStep func(string)
}

// ephemeral reports whether the driver creates the volume for this pod.
func (r *Request) ephemeral() bool { return r.Handle == "" }

// id returns the ID of the volume. An ephemeral volume gets a handle of its own.
func (r *Request) id() volumeID {
	if r.ephemeral() {
		return volumeID{r.Driver, ephemeralHandle(r.Pod.UID, r.Name)}
	}
	return volumeID{r.Driver, r.Handle}
}

// ephemeralHandle returns the handle of an ephemeral volume.
func ephemeralHandle(uid pod.UID, name string) string { return "csi-" + hash(string(uid)+name) }

// Mounted is a volume that is mounted for a pod.
type Mounted struct {
	Path string
	// RepublishAt is when to call Mount again (requiresRepublish); zero: never.
	RepublishAt time.Time
	// Labelled says that the volume is mounted with a SELinux label, and its files can't get another one.
	Labelled bool
}

// republishInterval is the time between two calls of NodePublishVolume for a driver with
// requiresRepublish.
const republishInterval = time.Minute

// Mount mounts a volume for a pod. It is idempotent. With an error, it returns the path nevertheless
// if the volume is mounted, and only the republishing failed.
func (m *Manager) Mount(ctx context.Context, r Request) (Mounted, error) {
	known, err := m.publishedRecord(r.Dir)
	if err != nil {
		return Mounted{}, err
	}
	have := Mounted{Path: m.target(&r)}
	if known != nil {
		have.Labelled = known.SELinuxLabel != ""
	}
	if known != nil && !known.Republish {
		return have, nil
	}
	have.RepublishAt, err = m.mount(ctx, &r, known != nil)
	if err == nil && known == nil {
		have.Labelled, err = m.finish(ctx, &r)
	}
	if err != nil && known == nil {
		return Mounted{}, err
	}
	if err != nil {
		have.RepublishAt = time.Now().Add(republishInterval)
	}
	return have, err
}

// mount stages and publishes a volume, or republishes one that is published. It returns when to
// republish it; zero: never.
func (m *Manager) mount(ctx context.Context, r *Request, published bool) (again time.Time, err error) {
	ctx = withMigrated(ctx, r.Migrated)
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

// finish expands a volume that was published, and then records that containers may use it. It tells
// whether the volume is mounted with a SELinux label. The volume is not locked: Expand calls the driver, too.
func (m *Manager) finish(ctx context.Context, r *Request) (labelled bool, err error) {
	if r.Expand != nil {
		if err := r.Expand(ctx); err != nil {
			return false, err
		}
	}
	// An expansion may take longer than the caller waits.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.CallTimeout)
	defer cancel()
	release, err := m.lockVolume(ctx, r.id())
	if err != nil {
		return false, err
	}
	defer release()
	rec, ok := m.index.recordIn(r.Dir)
	if !ok {
		return false, fmt.Errorf("%s was unmounted meanwhile", r.id())
	}
	rec.Ready = true
	if err := m.save(r.Dir, rec); err != nil {
		return false, err
	}
	if m.wasWarned(r.Dir) { // it has a readable record again
		m.reportInUse()
	}
	return rec.SELinuxLabel != "", nil
}

// republishAt returns when to republish the volume; zero: never.
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

// publishedRecord returns the record of a volume that is published. After a reboot it is not, whatever
// the record says.
func (m *Manager) publishedRecord(dir string) (*record, error) {
	known, err := m.readRecord(dir)
	if err != nil { // volume and record are made anew
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

// job is one call of Mount.
type job struct {
	m      *Manager
	r      *Request
	id     volumeID
	driver *driver
	spec   driverSpec

	attributes     map[string]string
	publishContext map[string]string // from the VolumeAttachment
	stageSecrets   map[string]string
	publishSecrets map[string]string
	capability     *spec.VolumeCapability
	tokensUntil    time.Time
	mountLabel     string // the SELinux label of the mount; "": none
	fileLabel      string // the SELinux label of files that the pod needs; "": none
}

// stageAndPublish writes the record, and then stages and publishes the volume and gives it its fsGroup.
func (j *job) stageAndPublish(ctx context.Context) error {
	rec := record{Name: j.r.Name, Handle: j.id.handle, Driver: j.id.driver, NotAttached: !j.attachable(), Republish: j.spec.republish, SELinuxLabel: j.mountLabel, FileLabel: j.fileLabel}
	if !j.r.ephemeral() && j.driver.can[spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		rec.Staging = j.m.staging(j.r)
	}
	if j.r.Block {
		rec.Device = j.m.target(j.r)
	}
	if j.r.ephemeral() {
		rec.Mode = storagev1.VolumeLifecycleEphemeral
	}
	others, err := j.reserve(&rec)
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
	if j.fileLabel != "" && len(others) == 0 {
		j.countLabel(LabelAdmitted, false)
	}
	return j.applyFSGroup()
}

// republish publishes a volume again, with new tokens, and applies the fsGroup to new files.
func (j *job) republish(ctx context.Context) error {
	if err := j.publish(ctx); err != nil {
		return err
	}
	return j.applyFSGroup()
}

// applyFSGroup applies the fsGroup, unless the driver does.
func (j *job) applyFSGroup() error {
	if !j.appliesFSGroup() {
		return nil
	}
	j.r.OnStep(fmt.Sprintf("give volume %q to group %d", j.r.Name, j.r.Group))
	return j.r.ApplyFSGroup(j.m.target(j.r))
}

// reserve writes the record of a volume if its driver may have one more, and returns the records of
// other pods that have the volume. The mutex keeps two volumes from taking the last place. A volume
// that another pod has is as large as for that one.
func (j *job) reserve(rec *record) (others map[string]record, err error) {
	j.m.reserveMu.Lock()
	defer j.m.reserveMu.Unlock()
	if err := j.m.refresh(); err != nil {
		return nil, err
	}
	others = j.m.index.others(j.id, j.r.Dir)
	if err := j.checkVolumeLimit(others); err != nil {
		return nil, err
	}
	if err := j.checkLabel(others); err != nil {
		return nil, err
	}
	if rec.Size = largest(others); rec.Size == 0 {
		rec.Size = j.r.Size
	}
	return others, j.m.save(j.r.Dir, *rec)
}

// checkVolumeLimit returns an error if the driver has its maximum of volumes on this node. In a
// cluster, the scheduler counts them. Ephemeral volumes do not count.
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

// isStaged reports whether the volume is staged, because it is published for another pod. The record of
// that pod may be from before the driver staged volumes.
func (j *job) isStaged(others map[string]record) (bool, error) {
	for dir, r := range others {
		if r.Staging == "" {
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

// appliesFSGroup reports whether the agent has to apply the fsGroup.
func (j *job) appliesFSGroup() bool {
	if j.r.Group < 0 || j.r.Block || j.r.ReadOnly || j.driverAppliesFSGroup() {
		return false
	}
	switch j.spec.fsGroupPolicy {
	case storagev1.NoneFSGroupPolicy:
		return false
	case storagev1.FileFSGroupPolicy:
		return true
	default: // ReadWriteOnceWithFSType
		return j.r.FSType != "" && oneNode(j.r.AccessModes)
	}
}

// driverAppliesFSGroup reports whether the driver applies the fsGroup (VOLUME_MOUNT_GROUP).
func (j *job) driverAppliesFSGroup() bool {
	return j.r.Group >= 0 && j.driver.can[spec.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP]
}
