package volume

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
)

// CSI migration: a volume of a kind that a CSI driver has taken over (awsElasticBlockStore and others,
// see package volumekind) is translated to a persistent volume of that driver, and set up as one. The
// cluster attaches it under the same name, since it translates alike.

// migratedToAnnotation marks the translation of a volume. It names the driver, as the annotation of this
// name does on claims and volumes of a cluster.
const migratedToAnnotation = "pv.kubernetes.io/migrated-to"

// setupMigrated sets up a volume of a pod that names a disk or a share without a claim.
func setupMigrated(ctx context.Context, j *job, v *v1.Volume) (place, error) {
	if at, ok := j.alreadySetUp(v.Name); ok {
		return at, nil
	}
	pv, err := csitranslation.New().TranslateInTreeInlineVolumeToCSI(klog.Background(), v, j.pod.Namespace)
	if err != nil {
		return place{}, fmt.Errorf("translate it to a volume of its CSI driver: %w", err)
	}
	markMigrated(pv)
	// The kubelet's name for the directory, unless it has slashes, as the URI of a disk does.
	if checkName(pv.Name) != nil {
		pv.Name = v.Name
	}
	return persistentCSI(ctx, j, v.Name, pv, false)
}

// translated returns the persistent volume of a CSI driver that a persistent volume of a migrated kind
// stands for. Other volumes are returned as they are.
func translated(pv *v1.PersistentVolume) (*v1.PersistentVolume, error) {
	translator := csitranslation.New()
	if !translator.IsPVMigratable(pv) {
		return pv, nil
	}
	out, err := translator.TranslateInTreePVToCSI(klog.Background(), pv)
	if err != nil {
		return nil, fmt.Errorf("translate it to a volume of its CSI driver: %w", err)
	}
	markMigrated(out)
	return out, nil
}

func markMigrated(pv *v1.PersistentVolume) {
	if pv.Annotations == nil {
		pv.Annotations = map[string]string{}
	}
	pv.Annotations[migratedToAnnotation] = pv.Spec.CSI.Driver
}

// isMigrated reports whether a volume of a CSI driver is a translation.
func isMigrated(pv *v1.PersistentVolume) bool {
	return pv.Annotations[migratedToAnnotation] == pv.Spec.CSI.Driver
}
