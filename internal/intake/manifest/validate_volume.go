package manifest

import (
	"path"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateVolumes validates volumes, and returns their sources by name, for the validation of
// mounts.
func validateVolumes(volumes []v1.Volume, at *field.Path) (map[string]v1.VolumeSource, field.ErrorList) {
	var errs field.ErrorList
	names := sets.New[string]()
	byName := make(map[string]v1.VolumeSource, len(volumes))
	for i, v := range volumes {
		at := at.Index(i)
		errs = append(errs, required(v.Name, at.Child("name"), validation.IsDNS1123Label)...)
		errs = append(errs, checkUnique(v.Name, at.Child("name"), names)...)
		byName[v.Name] = v.VolumeSource
		errs = append(errs, exactlyOne(fieldsSet(reflect.ValueOf(v.VolumeSource)), "the kinds of volume", at)...)
		errs = append(errs, validateVolume(&v.VolumeSource, at)...)
	}
	return byName, errs
}

// fieldsSet returns the names of the fields of a struct of pointers that are set.
func fieldsSet(value reflect.Value) []string {
	var set []string
	for i := range value.NumField() {
		if !value.Field(i).IsNil() {
			name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			set = append(set, name)
		}
	}
	return set
}

func validateVolume(s *v1.VolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.HostPath != nil {
		errs = append(errs, validateHostPath(s.HostPath, at.Child("hostPath"))...)
	}
	if s.EmptyDir != nil {
		errs = append(errs, validateEmptyDir(s.EmptyDir, at.Child("emptyDir"))...)
	}
	if s.Secret != nil {
		at := at.Child("secret")
		errs = append(errs, required(s.Secret.SecretName, at.Child("secretName"), validation.IsDNS1123Subdomain)...)
		errs = append(errs, validateMode(s.Secret.DefaultMode, at.Child("defaultMode"))...)
		errs = append(errs, validateItems(s.Secret.Items, at.Child("items"))...)
	}
	if s.ConfigMap != nil {
		at := at.Child("configMap")
		errs = append(errs, required(s.ConfigMap.Name, at.Child("name"), validation.IsDNS1123Subdomain)...)
		errs = append(errs, validateMode(s.ConfigMap.DefaultMode, at.Child("defaultMode"))...)
		errs = append(errs, validateItems(s.ConfigMap.Items, at.Child("items"))...)
	}
	if s.DownwardAPI != nil {
		at := at.Child("downwardAPI")
		errs = append(errs, validateMode(s.DownwardAPI.DefaultMode, at.Child("defaultMode"))...)
		errs = append(errs, validateDownward(s.DownwardAPI.Items, at.Child("items"))...)
	}
	if s.Projected != nil {
		errs = append(errs, validateProjected(s.Projected, at.Child("projected"))...)
	}
	if s.PersistentVolumeClaim != nil {
		errs = append(errs, required(s.PersistentVolumeClaim.ClaimName, at.Child("persistentVolumeClaim", "claimName"), validation.IsDNS1123Subdomain)...)
	}
	if s.Image != nil {
		errs = append(errs, required(s.Image.Reference, at.Child("image", "reference"), isImage)...)
		errs = append(errs, oneOf(s.Image.PullPolicy, at.Child("image", "pullPolicy"), v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)...)
	}
	return errs
}

func validateHostPath(h *v1.HostPathVolumeSource, at *field.Path) field.ErrorList {
	errs := required(h.Path, at.Child("path"), func(p string) []string {
		if slices.Contains(strings.Split(p, "/"), "..") {
			return []string{"must not contain '..'"}
		}
		return nil
	})
	return append(errs, oneOf(*h.Type, at.Child("type"), v1.HostPathUnset, v1.HostPathDirectoryOrCreate, v1.HostPathDirectory,
		v1.HostPathFileOrCreate, v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev)...)
}

func validateEmptyDir(e *v1.EmptyDirVolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if e.SizeLimit != nil && e.SizeLimit.Sign() < 0 {
		errs = append(errs, field.Invalid(at.Child("sizeLimit"), e.SizeLimit.String(), "must be greater than or equal to 0"))
	}
	if !strings.HasPrefix(string(e.Medium), string(v1.StorageMediumHugePagesPrefix)) {
		errs = append(errs, oneOf(e.Medium, at.Child("medium"), v1.StorageMediumDefault, v1.StorageMediumMemory, v1.StorageMediumHugePages)...)
	}
	return errs
}

func validateProjected(p *v1.ProjectedVolumeSource, at *field.Path) field.ErrorList {
	errs := validateMode(p.DefaultMode, at.Child("defaultMode"))
	for i, s := range p.Sources {
		at := at.Child("sources").Index(i)
		if s.Secret != nil {
			errs = append(errs, required(s.Secret.Name, at.Child("secret", "name"), validation.IsDNS1123Subdomain)...)
			errs = append(errs, validateItems(s.Secret.Items, at.Child("secret", "items"))...)
		}
		if s.ConfigMap != nil {
			errs = append(errs, required(s.ConfigMap.Name, at.Child("configMap", "name"), validation.IsDNS1123Subdomain)...)
			errs = append(errs, validateItems(s.ConfigMap.Items, at.Child("configMap", "items"))...)
		}
		if s.DownwardAPI != nil {
			errs = append(errs, validateDownward(s.DownwardAPI.Items, at.Child("downwardAPI", "items"))...)
		}
		if s.ServiceAccountToken != nil {
			errs = append(errs, required(s.ServiceAccountToken.Path, at.Child("serviceAccountToken", "path"), isLocalPath)...)
		}
		if s.ClusterTrustBundle != nil {
			errs = append(errs, required(s.ClusterTrustBundle.Path, at.Child("clusterTrustBundle", "path"), isLocalPath)...)
		}
		if c := s.PodCertificate; c != nil {
			at := at.Child("podCertificate")
			errs = append(errs, optional(c.CredentialBundlePath, at.Child("credentialBundlePath"), isLocalPath)...)
			errs = append(errs, optional(c.KeyPath, at.Child("keyPath"), isLocalPath)...)
			errs = append(errs, optional(c.CertificateChainPath, at.Child("certificateChainPath"), isLocalPath)...)
		}
	}
	return errs
}

func validateItems(items []v1.KeyToPath, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, item := range items {
		errs = append(errs, required(item.Key, at.Index(i).Child("key"), validation.IsConfigMapKey)...)
		errs = append(errs, required(item.Path, at.Index(i).Child("path"), isLocalPath)...)
		errs = append(errs, validateMode(item.Mode, at.Index(i).Child("mode"))...)
	}
	return errs
}

func validateDownward(items []v1.DownwardAPIVolumeFile, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, item := range items {
		at := at.Index(i)
		errs = append(errs, required(item.Path, at.Child("path"), isLocalPath)...)
		errs = append(errs, validateMode(item.Mode, at.Child("mode"))...)
		var set []string
		if item.FieldRef != nil {
			set = append(set, "fieldRef")
			errs = append(errs, validateFieldRef(item.FieldRef, at.Child("fieldRef"))...)
		}
		if item.ResourceFieldRef != nil {
			set = append(set, "resourceFieldRef")
			errs = append(errs, required(item.ResourceFieldRef.ContainerName, at.Child("resourceFieldRef", "containerName"), validation.IsDNS1123Label)...)
		}
		errs = append(errs, exactlyOne(set, "fieldRef, resourceFieldRef", at)...)
	}
	return errs
}

func validateMode(mode *int32, at *field.Path) field.ErrorList {
	if mode == nil || (*mode >= 0 && *mode <= 0o777) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, *mode, "must be a number between 0 and 0777 (octal), both inclusive")}
}

// isLocalPath accepts relative paths without "..".
func isLocalPath(p string) []string {
	switch {
	case path.IsAbs(p):
		return []string{"must be a relative path"}
	case slices.Contains(strings.Split(p, "/"), ".."):
		return []string{"must not contain '..'"}
	case strings.HasPrefix(p, ".."):
		return []string{"must not start with '..'"}
	case strings.ContainsRune(p, 0):
		return []string{"must not contain a zero byte"}
	default:
		return nil
	}
}

func validateMounts(c *v1.Container, volumes map[string]v1.VolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	paths := sets.New[string]()
	for i, m := range c.VolumeMounts {
		at := at.Child("volumeMounts").Index(i)
		if _, ok := volumes[m.Name]; m.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else if !ok {
			errs = append(errs, field.NotFound(at.Child("name"), m.Name))
		}
		errs = append(errs, required(m.MountPath, at.Child("mountPath"), isMountPath)...)
		errs = append(errs, checkUnique(m.MountPath, at.Child("mountPath"), paths)...)
		errs = append(errs, optional(m.SubPath, at.Child("subPath"), isLocalPath)...)
		errs = append(errs, optional(m.SubPathExpr, at.Child("subPathExpr"), isLocalPath)...)
		if m.SubPath != "" && m.SubPathExpr != "" {
			errs = append(errs, field.Invalid(at.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
		}
		if p := m.MountPropagation; p != nil {
			errs = append(errs, oneOf(*p, at.Child("mountPropagation"), v1.MountPropagationNone, v1.MountPropagationHostToContainer, v1.MountPropagationBidirectional)...)
		}
		if r := m.RecursiveReadOnly; r != nil {
			errs = append(errs, oneOf(*r, at.Child("recursiveReadOnly"), v1.RecursiveReadOnlyDisabled, v1.RecursiveReadOnlyIfPossible, v1.RecursiveReadOnlyEnabled)...)
		}
	}
	for i, d := range c.VolumeDevices {
		at := at.Child("volumeDevices").Index(i)
		if _, ok := volumes[d.Name]; !ok {
			errs = append(errs, field.NotFound(at.Child("name"), d.Name))
		}
		errs = append(errs, required(d.DevicePath, at.Child("devicePath"), isLocalDevice)...)
		errs = append(errs, checkUnique(d.DevicePath, at.Child("devicePath"), paths)...)
	}
	return errs
}

func isMountPath(p string) []string {
	if strings.ContainsAny(p, ":\x00") {
		return []string{"must not contain ':' or a zero byte"}
	}
	return nil
}

func isLocalDevice(p string) []string {
	if slices.Contains(strings.Split(p, "/"), "..") {
		return []string{"must not contain '..'"}
	}
	return nil
}
