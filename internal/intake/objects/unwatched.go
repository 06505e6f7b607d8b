package objects

import (
	"context"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// A node may not watch the kinds of objects in this file, and they are needed rarely. They
// are read from the server each time.

// PersistentVolumeClaim returns a claim as the API server has it now.
func (a *API) PersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	o, err := get(ctx, a.Client.CoreV1().PersistentVolumeClaims(namespace), name)
	if err != nil {
		return nil, ref{claim, namespace, name}.failed(err)
	}
	return o, nil
}

// PersistentVolume returns a volume as the API server has it now.
func (a *API) PersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	o, err := get(ctx, a.Client.CoreV1().PersistentVolumes(), name)
	if err != nil {
		return nil, ref{kind: volume, name: name}.failed(err)
	}
	return o, nil
}

// ServiceAccount returns a service account as the API server has it now.
func (a *API) ServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	o, err := get(ctx, a.Client.CoreV1().ServiceAccounts(namespace), name)
	if err != nil {
		return nil, ref{account, namespace, name}.failed(err)
	}
	return o, nil
}

// CSIDriver returns the CSIDriver object of a driver as the API server has it now.
func (a *API) CSIDriver(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	o, err := get(ctx, a.Client.StorageV1().CSIDrivers(), name)
	if err != nil {
		return nil, ref{kind: csiDriver, name: name}.failed(err)
	}
	return o, nil
}

// VolumeAttachment returns a VolumeAttachment as the API server has it now.
func (a *API) VolumeAttachment(ctx context.Context, name string) (*storagev1.VolumeAttachment, error) {
	o, err := get(ctx, a.Client.StorageV1().VolumeAttachments(), name)
	if err != nil {
		return nil, ref{kind: attachment, name: name}.failed(err)
	}
	return o, nil
}
