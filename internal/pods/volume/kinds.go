package volume

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/volumekind"
)

// kind is what this package does for one kind of volume, in addition to the facts in package volumekind.
type kind struct {
	// setup is called in every sync: it is idempotent, and cheap if nothing is to be done. With an
	// error, it returns the place nevertheless if an earlier content can be used.
	setup func(ctx context.Context, j *job, v *v1.Volume) (place, error)
	// identity returns the part of the source that makes it another volume when it is edited. nil: all of
	// it; of a volume with content, nothing but the kind.
	identity func(*v1.VolumeSource) string
	// unrecorded reports whether setup finds out by itself that a volume was edited, so that no record of it
	// is needed. nil: only for a volume with content.
	unrecorded func(*v1.VolumeSource) bool
}

// kinds has the functions of every kind of volume. It has no entry for a kind that is not supported.
func kinds() map[volumekind.Kind]kind {
	return map[volumekind.Kind]kind{
		volumekind.EmptyDir:    {setup: setupEmptyDir, identity: emptyDirIdentity, unrecorded: isOnDisk},
		volumekind.HostPath:    {setup: setupHostPath},
		volumekind.ConfigMap:   {setup: setupConfigMap},
		volumekind.Secret:      {setup: setupSecret},
		volumekind.DownwardAPI: {setup: setupDownwardAPI},
		volumekind.Projected:   {setup: setupProjected},
		volumekind.Claim:       {setup: setupClaim},
		volumekind.Ephemeral:   {setup: setupEphemeral},
		volumekind.CSI:         {setup: setupCSI},
		volumekind.NFS:         {setup: setupNFS},
		volumekind.Image:       {setup: setupImage},

		volumekind.AWSElasticBlockStore: {setup: setupMigrated},
		volumekind.AzureDisk:            {setup: setupMigrated},
		volumekind.AzureFile:            {setup: setupMigrated},
		volumekind.Cinder:               {setup: setupMigrated},
		volumekind.GCEPersistentDisk:    {setup: setupMigrated},
		volumekind.PortworxVolume:       {setup: setupMigrated},
		volumekind.VsphereVolume:        {setup: setupMigrated},
	}
}

// persistentKind is one kind of persistent volume.
type persistentKind struct {
	field string // of the persistent volume, as users write it
	is    func(*v1.PersistentVolumeSource) bool
	setup func(ctx context.Context, j *job, volume string, pv *v1.PersistentVolume, readOnly bool) (place, error)
	block bool // it may be a device (volumeMode Block)
}

// persistentKinds returns the kinds of persistent volumes that are set up. Volumes of migrated kinds have
// become csi before, see translated.
func persistentKinds() []persistentKind {
	return []persistentKind{
		{"hostPath", func(s *v1.PersistentVolumeSource) bool { return s.HostPath != nil }, persistentHostPath, false},
		{"local", func(s *v1.PersistentVolumeSource) bool { return s.Local != nil }, persistentLocal, true},
		{"csi", func(s *v1.PersistentVolumeSource) bool { return s.CSI != nil }, persistentCSI, true},
		{"nfs", func(s *v1.PersistentVolumeSource) bool { return s.NFS != nil }, persistentNFS, false},
	}
}

func (j *job) volume(ctx context.Context, v *v1.Volume) (place, error) {
	if err := checkName(v.Name); err != nil {
		return place{}, err
	}
	k, supported := kinds()[volumekind.Of(&v.VolumeSource)]
	if !supported {
		return place{}, errors.New(volumekind.Refusal(&v.VolumeSource))
	}
	if err := j.unmountEdited(ctx, v); err != nil {
		return place{}, fmt.Errorf("take away what it was before an edit: %w", err)
	}
	at, err := k.setup(ctx, j, v)
	at.source = sourceOf(v)
	return at, errors.Join(err, j.writeRecord(v, at))
}

// persistent sets up the persistent volume behind a claim.
func (j *job) persistent(ctx context.Context, volume string, pv *v1.PersistentVolume, readOnly bool) (place, error) {
	if err := checkName(pv.Name); err != nil {
		return place{}, err
	}
	var fields, devices []string
	noDevice := false
	for _, k := range persistentKinds() {
		is := k.is(&pv.Spec.PersistentVolumeSource)
		if is && (k.block || !isBlock(pv)) {
			return k.setup(ctx, j, volume, pv, readOnly)
		}
		noDevice = noDevice || is
		fields = append(fields, k.field)
		if k.block {
			devices = append(devices, k.field)
		}
	}
	if noDevice {
		return place{}, errors.New("volumeMode Block is not supported for its kind; it is for: " + strings.Join(devices, ", "))
	}
	return place{}, errors.New(volumekind.PersistentRefusal(&pv.Spec.PersistentVolumeSource, strings.Join(fields, ", ")))
}
