package manifest

import v1 "k8s.io/api/core/v1"

func defaultVolume(v *v1.Volume) {
	s := &v.VolumeSource
	if *s == (v1.VolumeSource{}) {
		s.EmptyDir = &v1.EmptyDirVolumeSource{}
	}
	if s.HostPath != nil {
		setDefaultPtr(&s.HostPath.Type, v1.HostPathUnset)
	}
	if s.Secret != nil {
		setDefaultPtr(&s.Secret.DefaultMode, v1.SecretVolumeSourceDefaultMode)
	}
	if s.ConfigMap != nil {
		setDefaultPtr(&s.ConfigMap.DefaultMode, v1.ConfigMapVolumeSourceDefaultMode)
	}
	if s.DownwardAPI != nil {
		setDefaultPtr(&s.DownwardAPI.DefaultMode, v1.DownwardAPIVolumeSourceDefaultMode)
		defaultFieldRefs(s.DownwardAPI.Items)
	}
	if s.Projected != nil {
		setDefaultPtr(&s.Projected.DefaultMode, v1.ProjectedVolumeSourceDefaultMode)
		for _, source := range s.Projected.Sources {
			if source.ServiceAccountToken != nil {
				setDefaultPtr(&source.ServiceAccountToken.ExpirationSeconds, 60*60)
			}
			if source.DownwardAPI != nil {
				defaultFieldRefs(source.DownwardAPI.Items)
			}
		}
	}
	if s.ISCSI != nil {
		setDefault(&s.ISCSI.ISCSIInterface, "default")
	}
	if s.Image != nil {
		setDefault(&s.Image.PullPolicy, pullPolicy(s.Image.Reference))
	}
	if s.Ephemeral != nil && s.Ephemeral.VolumeClaimTemplate != nil {
		setDefaultPtr(&s.Ephemeral.VolumeClaimTemplate.Spec.VolumeMode, v1.PersistentVolumeFilesystem)
	}
}

func defaultFieldRefs(items []v1.DownwardAPIVolumeFile) {
	for i := range items {
		defaultFieldRef(items[i].FieldRef)
	}
}
