package mirror

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// omit removes the references to other objects of the API server from a spec, and returns the
// names of the parts that had one. A volume becomes an emptyDir, so that its mounts stay valid.
func omit(spec *v1.PodSpec) []string {
	var omitted []string
	note := func(what string, is bool) {
		if is {
			omitted = append(omitted, what)
		}
	}
	note("serviceAccountName", spec.ServiceAccountName != "")
	note("imagePullSecrets", len(spec.ImagePullSecrets) > 0)
	note("resourceClaims", len(spec.ResourceClaims) > 0)
	note("ephemeralContainers", len(spec.EphemeralContainers) > 0)
	spec.ServiceAccountName, spec.DeprecatedServiceAccount = "", ""
	spec.ImagePullSecrets, spec.ResourceClaims, spec.EphemeralContainers = nil, nil, nil

	for i := range spec.Volumes {
		if source := &spec.Volumes[i].VolumeSource; !standsAlone(source) {
			note("volume "+spec.Volumes[i].Name, true)
			*source = v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
		}
	}
	for _, containers := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			note("envFrom of "+c.Name, len(c.EnvFrom) > 0)
			c.EnvFrom, c.Resources.Claims = nil, nil
			c.Env = slices.DeleteFunc(c.Env, func(e v1.EnvVar) bool {
				refers := e.ValueFrom != nil && (e.ValueFrom.SecretKeyRef != nil || e.ValueFrom.ConfigMapKeyRef != nil)
				note("env "+e.Name+" of "+c.Name, refers)
				return refers
			})
		}
	}
	return omitted
}

// standsAlone reports whether a volume refers to no other object. A kind of volume that is not
// listed here counts as referring to one.
func standsAlone(s *v1.VolumeSource) bool {
	if s.Projected != nil {
		return !slices.ContainsFunc(s.Projected.Sources, func(p v1.VolumeProjection) bool { return p.DownwardAPI == nil })
	}
	return s.EmptyDir != nil || s.HostPath != nil || s.DownwardAPI != nil || s.Image != nil || s.NFS != nil || s.FC != nil ||
		*s == v1.VolumeSource{} // which the server defaults to emptyDir
}
