package volumekind

import (
	"cmp"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// SourceOf returns the source of a volume for users: the name of an object, a path, a server. It is
// empty for a kind that is not supported.
func SourceOf(s *v1.VolumeSource) string { return Of(s).row().source(s) }

func emptyDirSource(s *v1.VolumeSource) string {
	return strings.ToLower(cmp.Or(string(s.EmptyDir.Medium), "disk"))
}

func hostPathSource(s *v1.VolumeSource) string  { return s.HostPath.Path }
func configMapSource(s *v1.VolumeSource) string { return s.ConfigMap.Name }
func secretSource(s *v1.VolumeSource) string    { return s.Secret.SecretName }
func podSource(*v1.VolumeSource) string         { return "the pod" }
func claimSource(s *v1.VolumeSource) string     { return s.PersistentVolumeClaim.ClaimName }
func ephemeralSource(*v1.VolumeSource) string   { return "a claim of the pod" }
func csiSource(s *v1.VolumeSource) string       { return s.CSI.Driver }
func nfsSource(s *v1.VolumeSource) string       { return s.NFS.Server + ":" + s.NFS.Path }
func imageSource(s *v1.VolumeSource) string     { return s.Image.Reference }

func awsElasticBlockStoreSource(s *v1.VolumeSource) string { return s.AWSElasticBlockStore.VolumeID }
func azureDiskSource(s *v1.VolumeSource) string            { return s.AzureDisk.DiskName }
func azureFileSource(s *v1.VolumeSource) string            { return s.AzureFile.ShareName }
func cinderSource(s *v1.VolumeSource) string               { return s.Cinder.VolumeID }
func gcePersistentDiskSource(s *v1.VolumeSource) string    { return s.GCEPersistentDisk.PDName }
func portworxVolumeSource(s *v1.VolumeSource) string       { return s.PortworxVolume.VolumeID }
func vsphereVolumeSource(s *v1.VolumeSource) string        { return s.VsphereVolume.VolumePath }

func projectedSource(s *v1.VolumeSource) string {
	var parts []string
	for _, p := range s.Projected.Sources {
		switch {
		case p.ConfigMap != nil:
			parts = append(parts, "configMap "+p.ConfigMap.Name)
		case p.Secret != nil:
			parts = append(parts, "secret "+p.Secret.Name)
		case p.ServiceAccountToken != nil:
			parts = append(parts, "token")
		case p.DownwardAPI != nil:
			parts = append(parts, "the pod")
		case p.PodCertificate != nil:
			parts = append(parts, "certificate of "+p.PodCertificate.SignerName)
		default:
			parts = append(parts, "others")
		}
	}
	return strings.Join(parts, ", ")
}
