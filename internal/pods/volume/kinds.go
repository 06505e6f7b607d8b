package volume

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pods/csi"
)

// kind is one kind of volume. setup is called in every sync: it is idempotent, and
// cheap if nothing is to be done. With an error, it returns the place nevertheless
// if an earlier content can be used.
type kind struct {
	field string // of the volume, as users write it
	is    func(*v1.VolumeSource) bool
	setup func(ctx context.Context, j *job, v *v1.Volume) (place, error)
}

// kinds is the only place that lists them.
func kinds() []kind {
	return []kind{
		{"emptyDir", func(s *v1.VolumeSource) bool { return s.EmptyDir != nil }, setupEmptyDir},
		{"hostPath", func(s *v1.VolumeSource) bool { return s.HostPath != nil }, setupHostPath},
		{"configMap", func(s *v1.VolumeSource) bool { return s.ConfigMap != nil }, setupConfigMap},
		{"secret", func(s *v1.VolumeSource) bool { return s.Secret != nil }, setupSecret},
		{"downwardAPI", func(s *v1.VolumeSource) bool { return s.DownwardAPI != nil }, setupDownwardAPI},
		{"projected", func(s *v1.VolumeSource) bool { return s.Projected != nil }, setupProjected},
		{"persistentVolumeClaim", func(s *v1.VolumeSource) bool { return s.PersistentVolumeClaim != nil }, setupClaim},
		{"ephemeral", func(s *v1.VolumeSource) bool { return s.Ephemeral != nil }, setupEphemeral},
		{"csi", func(s *v1.VolumeSource) bool { return s.CSI != nil }, setupCSI},
		{"nfs", func(s *v1.VolumeSource) bool { return s.NFS != nil }, setupNFS},
		{"image", func(s *v1.VolumeSource) bool { return s.Image != nil }, setupImage},
	}
}

// The directories below volumes/, named as the kubelet names them: tools look there.
const (
	dirEmptyDir  = "kubernetes.io~empty-dir"
	dirConfigMap = "kubernetes.io~configmap"
	dirSecret    = "kubernetes.io~secret"
	dirDownward  = "kubernetes.io~downward-api"
	dirProjected = "kubernetes.io~projected"
	dirLocal     = "kubernetes.io~local-volume"
	dirNFS       = "kubernetes.io~nfs"
	dirCSI       = csi.VolumesDir
)

func (j *job) volume(ctx context.Context, v *v1.Volume) (place, error) {
	if err := checkName(v.Name); err != nil {
		return place{}, err
	}
	var names []string
	for _, k := range kinds() {
		if k.is(&v.VolumeSource) {
			if err := j.dropEdited(ctx, v); err != nil {
				return place{}, fmt.Errorf("take away what it was before an edit: %w", err)
			}
			at, err := k.setup(ctx, j, v)
			at.source = sourceOf(v)
			return at, errors.Join(err, j.write(v, at))
		}
		names = append(names, k.field)
	}
	return place{}, errors.New("its kind is not supported; these are: " + strings.Join(names, ", "))
}
