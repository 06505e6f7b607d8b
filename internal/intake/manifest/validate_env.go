package manifest

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateEnv(c *v1.Container, volumes map[string]v1.VolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, e := range c.Env {
		at := at.Child("env").Index(i)
		errs = append(errs, required(e.Name, at.Child("name"), validation.IsRelaxedEnvVarName)...)
		if e.ValueFrom == nil {
			continue
		}
		if e.Value != "" {
			errs = append(errs, field.Forbidden(at.Child("valueFrom"), "may not be specified when `value` is not empty"))
		}
		errs = append(errs, validateEnvSource(e.ValueFrom, volumes, at.Child("valueFrom"))...)
	}
	for i, e := range c.EnvFrom {
		at := at.Child("envFrom").Index(i)
		errs = append(errs, optional(e.Prefix, at.Child("prefix"), validation.IsRelaxedEnvVarName)...)
		var set []string
		if e.ConfigMapRef != nil {
			set = append(set, "configMapRef")
			errs = append(errs, required(e.ConfigMapRef.Name, at.Child("configMapRef", "name"), validation.IsDNS1123Subdomain)...)
		}
		if e.SecretRef != nil {
			set = append(set, "secretRef")
			errs = append(errs, required(e.SecretRef.Name, at.Child("secretRef", "name"), validation.IsDNS1123Subdomain)...)
		}
		errs = append(errs, exactlyOne(set, "configMapRef, secretRef", at)...)
	}
	return errs
}

func validateEnvSource(s *v1.EnvVarSource, volumes map[string]v1.VolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	var set []string
	if r := s.FieldRef; r != nil {
		set = append(set, "fieldRef")
		errs = append(errs, validateFieldRef(r, at.Child("fieldRef"))...)
	}
	if r := s.ResourceFieldRef; r != nil {
		set = append(set, "resourceFieldRef")
		errs = append(errs, required(r.Resource, at.Child("resourceFieldRef", "resource"), anyText)...)
	}
	if r := s.ConfigMapKeyRef; r != nil {
		set = append(set, "configMapKeyRef")
		errs = append(errs, validateKeyRef(r.Name, r.Key, at.Child("configMapKeyRef"))...)
	}
	if r := s.SecretKeyRef; r != nil {
		set = append(set, "secretKeyRef")
		errs = append(errs, validateKeyRef(r.Name, r.Key, at.Child("secretKeyRef"))...)
	}
	if r := s.FileKeyRef; r != nil {
		set = append(set, "fileKeyRef")
		at := at.Child("fileKeyRef")
		errs = append(errs, required(r.VolumeName, at.Child("volumeName"), anyText)...)
		if v, ok := volumes[r.VolumeName]; r.VolumeName != "" && (!ok || v.EmptyDir == nil) {
			errs = append(errs, field.NotFound(at.Child("volumeName"), r.VolumeName))
		}
		errs = append(errs, required(r.Path, at.Child("path"), isLocalPath)...)
		errs = append(errs, required(r.Key, at.Child("key"), validation.IsRelaxedEnvVarName)...)
	}
	return append(errs, exactlyOne(set, "fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef, fileKeyRef", at)...)
}

func validateFieldRef(r *v1.ObjectFieldSelector, at *field.Path) field.ErrorList {
	errs := required(r.FieldPath, at.Child("fieldPath"), anyText)
	return append(errs, oneOf(r.APIVersion, at.Child("apiVersion"), "v1")...)
}

// validateKeyRef validates a reference to a key of a ConfigMap or Secret.
func validateKeyRef(name, key string, at *field.Path) field.ErrorList {
	errs := required(name, at.Child("name"), validation.IsDNS1123Subdomain)
	return append(errs, required(key, at.Child("key"), validation.IsConfigMapKey)...)
}

func anyText(string) []string { return nil }
