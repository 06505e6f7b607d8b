package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateMeta validates the metadata of a namespaced object.
func validateMeta(m *metav1.ObjectMeta) field.ErrorList {
	errs := required(m.Namespace, field.NewPath("metadata", "namespace"), validation.IsDNS1123Label)
	return append(validateName(m), errs...)
}

// validateClusterScoped validates the metadata of an object without a namespace.
func validateClusterScoped(m *metav1.ObjectMeta) field.ErrorList {
	errs := validateName(m)
	if m.Namespace != "" {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "namespace"), "objects of this kind have no namespace: remove the field"))
	}
	return errs
}

func validateName(m *metav1.ObjectMeta) field.ErrorList {
	at := field.NewPath("metadata")
	errs := required(m.Name, at.Child("name"), validation.IsDNS1123Subdomain)
	errs = append(errs, optional(string(m.UID), at.Child("uid"), isUID)...)
	errs = append(errs, metavalidation.ValidateLabels(m.Labels, at.Child("labels"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(m.Annotations, at.Child("annotations"))...)
	if m.DeletionTimestamp != nil {
		errs = append(errs, field.Forbidden(at.Child("deletionTimestamp"), "a manifest can't be of an object that is being deleted: remove the field"))
	}
	return errs
}

// isUID accepts UIDs that are safe as a path, a label and the name of a cgroup.
func isUID(uid string) []string {
	if len(uid) > validation.LabelValueMaxLength {
		return []string{validation.MaxLenError(validation.LabelValueMaxLength)}
	}
	if !regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`).MatchString(uid) {
		return []string{"must consist of letters, digits, '-', '_' or '.', and must start and end with a letter or digit"}
	}
	return nil
}

func validateConfigMap(c *v1.ConfigMap) field.ErrorList {
	errs := validateMeta(&c.ObjectMeta)
	size := 0
	for _, key := range slices.Sorted(maps.Keys(c.Data)) {
		at := field.NewPath("data").Key(key)
		errs = append(errs, required(key, at, validation.IsConfigMapKey)...)
		if _, twice := c.BinaryData[key]; twice {
			errs = append(errs, field.Invalid(at, key, "is in binaryData, too: remove one of the two"))
		}
		size += len(c.Data[key])
	}
	for _, key := range slices.Sorted(maps.Keys(c.BinaryData)) {
		errs = append(errs, required(key, field.NewPath("binaryData").Key(key), validation.IsConfigMapKey)...)
		size += len(c.BinaryData[key])
	}
	return append(errs, validateSize(size, "data")...)
}

func validateSize(size int, at string) field.ErrorList {
	if size <= v1.MaxSecretSize {
		return nil
	}
	return field.ErrorList{field.TooLong(field.NewPath(at), "", v1.MaxSecretSize)}
}

// secretKeys are the required keys of Secrets by type.
var secretKeys = map[v1.SecretType][]string{
	v1.SecretTypeDockercfg:        {v1.DockerConfigKey},
	v1.SecretTypeDockerConfigJson: {v1.DockerConfigJsonKey},
	v1.SecretTypeSSHAuth:          {v1.SSHAuthPrivateKey},
	v1.SecretTypeTLS:              {v1.TLSCertKey, v1.TLSPrivateKeyKey},
}

// validateSecret validates a Secret. Its errors name keys, and never a value.
func validateSecret(s *v1.Secret) field.ErrorList {
	errs := validateMeta(&s.ObjectMeta)
	size := 0
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		errs = append(errs, required(key, field.NewPath("data").Key(key), validation.IsConfigMapKey)...)
		if _, replaced := s.StringData[key]; !replaced {
			size += len(s.Data[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.StringData)) {
		errs = append(errs, required(key, field.NewPath("stringData").Key(key), validation.IsConfigMapKey)...)
		size += len(s.StringData[key])
	}
	for _, key := range secretKeys[s.Type] {
		at := field.NewPath("data").Key(key)
		content, there := s.Data[key]
		if text, isText := s.StringData[key]; isText {
			at, content, there = field.NewPath("stringData").Key(key), []byte(text), true
		}
		isJSON := s.Type == v1.SecretTypeDockercfg || s.Type == v1.SecretTypeDockerConfigJson
		switch {
		case !there:
			errs = append(errs, field.Required(at, fmt.Sprintf("a Secret of type %s needs it", s.Type)))
		case isJSON && !json.Valid(content):
			errs = append(errs, field.Invalid(at, "<hidden>", "must be JSON"))
		}
	}
	return append(errs, validateSize(size, "data")...)
}

func validateClass(c *nodev1.RuntimeClass) field.ErrorList {
	errs := validateClusterScoped(&c.ObjectMeta)
	errs = append(errs, required(c.Handler, field.NewPath("handler"), validation.IsDNS1123Label)...)
	if c.Overhead != nil {
		errs = append(errs, nonNegative(c.Overhead.PodFixed, field.NewPath("overhead", "podFixed"))...)
	}
	return errs
}
