package volume

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
)

// trustBundle adds a file with the certificates of ClusterTrustBundles: each once, sorted, since the
// order must not mean anything.
func (j *job) trustBundle(ctx context.Context, p payload, s *v1.ClusterTrustBundleProjection, defaultMode *int32) error {
	bundles, err := j.m.cfg.Objects.TrustBundles(ctx, j.pod, s)
	switch {
	case apierrors.IsNotFound(err) && ptr.Deref(s.Optional, false):
	case err != nil && s.Name != nil:
		return fetchError("clustertrustbundle", *s.Name, err)
	case err != nil:
		return fmt.Errorf("get the clustertrustbundles of a signer: %w", err)
	}
	text, err := certificates(bundles)
	switch {
	case err != nil:
		return fmt.Errorf("clustertrustbundle: %w", err)
	case len(text) == 0 && !ptr.Deref(s.Optional, false):
		return missingf("no clustertrustbundle matches what the volume asks for, and the source is not optional")
	}
	mode, err := fileMode(defaultMode)
	if err != nil {
		return err
	}
	return p.add(s.Path, file{data: text, mode: mode, uid: -1})
}

// certificates joins the certificates of bundles.
func certificates(bundles []string) ([]byte, error) {
	var all [][]byte
	for _, bundle := range bundles {
		for rest := []byte(bundle); ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			if block.Type != "CERTIFICATE" {
				return nil, errors.New("it holds something that is not a certificate: " + block.Type)
			}
			all = append(all, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
		}
	}
	slices.SortFunc(all, bytes.Compare)
	return bytes.Join(slices.CompactFunc(all, bytes.Equal), nil), nil
}
