package objects

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// ConfigMapsOf returns the names of the ConfigMaps that a pod refers to, sorted. They
// are in the namespace of the pod.
func ConfigMapsOf(p *v1.Pod) []string {
	configMaps, _ := objectsOf(p)
	return names(configMaps)
}

// SecretsOf returns the names of the Secrets that a pod refers to, sorted. They are in
// the namespace of the pod.
func SecretsOf(p *v1.Pod) []string {
	_, secrets := objectsOf(p)
	return names(secrets)
}

// objectsOf names the ConfigMaps and Secrets of a pod, as often as it refers to them.
func objectsOf(p *v1.Pod) (configMaps, secrets []string) {
	for _, e := range environments(p) {
		for _, v := range e.env {
			if v.ValueFrom != nil && v.ValueFrom.ConfigMapKeyRef != nil {
				configMaps = append(configMaps, v.ValueFrom.ConfigMapKeyRef.Name)
			}
			if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
				secrets = append(secrets, v.ValueFrom.SecretKeyRef.Name)
			}
		}
		for _, from := range e.from {
			if from.ConfigMapRef != nil {
				configMaps = append(configMaps, from.ConfigMapRef.Name)
			}
			if from.SecretRef != nil {
				secrets = append(secrets, from.SecretRef.Name)
			}
		}
	}
	for _, s := range p.Spec.ImagePullSecrets {
		secrets = append(secrets, s.Name)
	}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i].VolumeSource
		if v.ConfigMap != nil {
			configMaps = append(configMaps, v.ConfigMap.Name)
		}
		if v.Projected != nil {
			for _, source := range v.Projected.Sources {
				if source.ConfigMap != nil {
					configMaps = append(configMaps, source.ConfigMap.Name)
				}
				if source.Secret != nil {
					secrets = append(secrets, source.Secret.Name)
				}
			}
		}
		secrets = append(secrets, secretsOfVolume(v)...)
	}
	return configMaps, secrets
}

// secretsOfVolume names the Secrets that a volume source refers to directly.
func secretsOfVolume(v *v1.VolumeSource) []string {
	var out []string
	if v.Secret != nil {
		out = append(out, v.Secret.SecretName)
	}
	if v.AzureFile != nil {
		out = append(out, v.AzureFile.SecretName)
	}
	var references []*v1.LocalObjectReference
	if v.CSI != nil {
		references = append(references, v.CSI.NodePublishSecretRef)
	}
	if v.CephFS != nil {
		references = append(references, v.CephFS.SecretRef)
	}
	if v.Cinder != nil {
		references = append(references, v.Cinder.SecretRef)
	}
	if v.FlexVolume != nil {
		references = append(references, v.FlexVolume.SecretRef)
	}
	if v.ISCSI != nil {
		references = append(references, v.ISCSI.SecretRef)
	}
	if v.RBD != nil {
		references = append(references, v.RBD.SecretRef)
	}
	if v.ScaleIO != nil {
		references = append(references, v.ScaleIO.SecretRef)
	}
	if v.StorageOS != nil {
		references = append(references, v.StorageOS.SecretRef)
	}
	for _, r := range references {
		if r != nil {
			out = append(out, r.Name)
		}
	}
	return out
}

// ClaimsOf returns the names of the PersistentVolumeClaims that a pod refers to,
// sorted: those that it names, and those that are made for its ephemeral volumes.
func ClaimsOf(p *v1.Pod) []string {
	var out []string
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil {
			out = append(out, v.PersistentVolumeClaim.ClaimName)
		}
		if v.Ephemeral != nil {
			out = append(out, p.Name+"-"+v.Name)
		}
	}
	return names(out)
}

// RuntimeClassOf returns the name of the RuntimeClass that a pod refers to, or "".
func RuntimeClassOf(p *v1.Pod) string {
	if p.Spec.RuntimeClassName == nil {
		return ""
	}
	return *p.Spec.RuntimeClassName
}

// ServiceAccountOf returns the name of the service account that a pod acts as.
func ServiceAccountOf(p *v1.Pod) string {
	if p.Spec.ServiceAccountName == "" {
		return "default"
	}
	return p.Spec.ServiceAccountName
}

// environment holds env and envFrom of a container.
type environment struct {
	env  []v1.EnvVar
	from []v1.EnvFromSource
}

// environments returns env and envFrom of all init, main and ephemeral containers.
func environments(p *v1.Pod) []environment {
	var out []environment
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		out = append(out, environment{c.Env, c.EnvFrom})
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		out = append(out, environment{c.Env, c.EnvFrom})
	}
	for i := range p.Spec.EphemeralContainers {
		c := &p.Spec.EphemeralContainers[i]
		out = append(out, environment{c.Env, c.EnvFrom})
	}
	return out
}

// names sorts a list of names, without duplicates and empty ones.
func names(all []string) []string {
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > 0 && all[0] == "" {
		all = all[1:]
	}
	return all
}
