package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"berth/internal/lib/volumekind"
)

// defaultTokenLife is the default of expirationSeconds of a token.
const defaultTokenLife = int64(3600)

func setupProjected(ctx context.Context, j *job, v *v1.Volume) (place, error) {
	source := v.Projected
	optional := slices.ContainsFunc(source.Sources, func(s v1.VolumeProjection) bool {
		return (s.Secret != nil && ptr.Deref(s.Secret.Optional, false)) || (s.ConfigMap != nil && ptr.Deref(s.ConfigMap.Optional, false)) ||
			(s.ClusterTrustBundle != nil && ptr.Deref(s.ClusterTrustBundle.Optional, false))
	})
	return j.setupContent(volumekind.Projected, v.Name, inMemory, optional, func(p payload) error {
		for i := range source.Sources {
			if err := j.projection(ctx, p, v.Name, i, &source.Sources[i], source.DefaultMode); err != nil {
				return err
			}
		}
		return nil
	})
}

// projection adds the files of one source of a projected volume: the one at an index.
func (j *job) projection(ctx context.Context, p payload, volume string, index int, s *v1.VolumeProjection, mode *int32) error {
	switch {
	case s.Secret != nil:
		return j.secret(ctx, p, s.Secret.Name, s.Secret.Items, mode, s.Secret.Optional)
	case s.ConfigMap != nil:
		return j.configMap(ctx, p, s.ConfigMap.Name, s.ConfigMap.Items, mode, s.ConfigMap.Optional)
	case s.DownwardAPI != nil:
		return j.downward(p, s.DownwardAPI.Items, mode)
	case s.ServiceAccountToken != nil:
		return j.token(ctx, p, s.ServiceAccountToken, mode)
	case s.ClusterTrustBundle != nil:
		return j.trustBundle(ctx, p, s.ClusterTrustBundle, mode)
	case s.PodCertificate != nil:
		return j.podCertificate(ctx, p, volume, index, s.PodCertificate, mode)
	default:
		return errors.New("a source is of no kind that is supported: secret, configMap, downwardAPI, serviceAccountToken, clusterTrustBundle, podCertificate")
	}
}

// token adds a token of the pod's service account.
func (j *job) token(ctx context.Context, p payload, s *v1.ServiceAccountTokenProjection, defaultMode *int32) error {
	life := defaultTokenLife
	if s.ExpirationSeconds != nil {
		life = *s.ExpirationSeconds
	}
	token, _, refreshAt, err := j.m.cfg.Objects.Token(ctx, j.pod, s.Audience, life)
	if err != nil {
		return fmt.Errorf("get a token of the service account: %w", err)
	}
	j.renew(refreshAt)
	f, err := j.credentialFile([]byte(token), defaultMode)
	if err != nil {
		return err
	}
	return p.add(s.Path, f)
}
