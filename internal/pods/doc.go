// Package pods groups what a pod has on the node besides its containers, and the requests that are
// sent to containers. It may be imported by telemetry and core.
//
//	volume     volumes of all kinds, and the mounts of containers
//	csi        volumes of CSI drivers
//	expansion  volumes of CSI drivers that have grown
//	plugins    registration of plugins by their sockets
//	cgroup     cgroups of pods, and slices of systemd
//	userns     user namespaces of pods
//	ephemeral  ephemeral containers of static pods
//	orphan     files, links and cgroups of pods that are gone
//	handler    HTTP requests and targets that hooks and probes have in common
//	hook       postStart and preStop
//	probe      startup, liveness and readiness
//
// Start reading at volume.
package pods
