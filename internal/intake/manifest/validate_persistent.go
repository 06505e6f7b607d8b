package manifest

import (
	"path"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePersistentVolume accepts volumes of the machine only: without a cluster, no other volumes
// are attached. A local volume need not have a nodeAffinity.
func validatePersistentVolume(v *v1.PersistentVolume) field.ErrorList {
	errs := validateClusterScoped(&v.ObjectMeta)
	at, s := field.NewPath("spec"), &v.Spec
	errs = append(errs, validateStorage(s.Capacity, at.Child("capacity"))...)
	errs = append(errs, validateAccess(s.AccessModes, at.Child("accessModes"))...)
	errs = append(errs, optional(s.StorageClassName, at.Child("storageClassName"), validation.IsDNS1123Subdomain)...)
	errs = append(errs, validateVolumeMode(*s.VolumeMode, at)...)
	errs = append(errs, oneOf(s.PersistentVolumeReclaimPolicy, at.Child("persistentVolumeReclaimPolicy"),
		v1.PersistentVolumeReclaimRetain, v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRecycle)...)
	if to := s.ClaimRef; to != nil {
		errs = append(errs, required(to.Name, at.Child("claimRef", "name"), validation.IsDNS1123Subdomain)...)
		errs = append(errs, required(to.Namespace, at.Child("claimRef", "namespace"), validation.IsDNS1123Label)...)
	}
	sources := fieldsSet(reflect.ValueOf(s.PersistentVolumeSource))
	if other := slices.IndexFunc(sources, func(name string) bool { return name != "hostPath" && name != "local" }); other >= 0 {
		return append(errs, field.Forbidden(at.Child(sources[other]), "such a volume is for a cluster: from a manifest, berth takes hostPath and local"))
	}
	errs = append(errs, exactlyOne(sources, "hostPath, local", at)...)
	if s.HostPath != nil {
		errs = append(errs, validateHostPath(s.HostPath, at.Child("hostPath"))...)
	}
	if s.Local != nil {
		errs = append(errs, required(s.Local.Path, at.Child("local", "path"), isHostPath)...)
	}
	return errs
}

// isHostPath accepts absolute paths without "..".
func isHostPath(p string) []string {
	switch {
	case !path.IsAbs(p):
		return []string{"must be an absolute path"}
	case slices.Contains(strings.Split(p, "/"), ".."):
		return []string{"must not contain '..'"}
	case strings.ContainsRune(p, 0):
		return []string{"must not contain a zero byte"}
	default:
		return nil
	}
}

func validateClaim(c *v1.PersistentVolumeClaim) field.ErrorList {
	errs := validateMeta(&c.ObjectMeta)
	at, s := field.NewPath("spec"), &c.Spec
	errs = append(errs, validateStorage(s.Resources.Requests, at.Child("resources", "requests"))...)
	errs = append(errs, validateAccess(s.AccessModes, at.Child("accessModes"))...)
	if s.StorageClassName != nil {
		errs = append(errs, optional(*s.StorageClassName, at.Child("storageClassName"), validation.IsDNS1123Subdomain)...)
	}
	errs = append(errs, validateVolumeMode(*s.VolumeMode, at)...)
	errs = append(errs, optional(s.VolumeName, at.Child("volumeName"), validation.IsDNS1123Subdomain)...)
	errs = append(errs, metavalidation.ValidateLabelSelector(s.Selector, metavalidation.LabelSelectorValidationOptions{}, at.Child("selector"))...)
	if s.DataSource != nil {
		errs = append(errs, field.Forbidden(at.Child("dataSource"), needsProvisioner))
	}
	if s.DataSourceRef != nil {
		errs = append(errs, field.Forbidden(at.Child("dataSourceRef"), needsProvisioner))
	}
	return errs
}

const needsProvisioner = "volumes are filled by a cluster, and without one the volume is taken as it is: remove the field"

// validateStorage validates the storage request or capacity of a volume, the only resource that it
// may have.
func validateStorage(list v1.ResourceList, at *field.Path) field.ErrorList {
	size, there := list[v1.ResourceStorage]
	at = at.Key(string(v1.ResourceStorage))
	switch {
	case !there:
		return field.ErrorList{field.Required(at, "")}
	case size.Sign() <= 0:
		return field.ErrorList{field.Invalid(at, size.String(), "must be greater than 0")}
	default:
		return nil
	}
}

func validateAccess(modes []v1.PersistentVolumeAccessMode, at *field.Path) field.ErrorList {
	if len(modes) == 0 {
		return field.ErrorList{field.Required(at, "at least one access mode is needed")}
	}
	var errs field.ErrorList
	for i, mode := range modes {
		errs = append(errs, oneOf(mode, at.Index(i), v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOncePod)...)
	}
	if len(modes) > 1 && slices.Contains(modes, v1.ReadWriteOncePod) {
		errs = append(errs, field.Forbidden(at, "ReadWriteOncePod can't be together with other modes"))
	}
	return errs
}

func validateVolumeMode(mode v1.PersistentVolumeMode, at *field.Path) field.ErrorList {
	return oneOf(mode, at.Child("volumeMode"), v1.PersistentVolumeFilesystem, v1.PersistentVolumeBlock)
}
