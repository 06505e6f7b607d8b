// Package runtime groups the container runtime and everything that speaks to it. It may be imported
// by pods, telemetry, core and api.
//
//	cri         client of the Container Runtime Interface
//	features    what the runtime says of itself, read once
//	render      CRI messages of a pod and an action
//	crilog      container logs in the format of CRI
//	image       images of pods: pulls, credentials, records
//	imagegc     removal of unused images
//	keyring     which credentials may be shown to which registry
//	credential  logins and credential provider plugins of this machine
//	bundle      the containerd that berth brings along
//	ociarchive  image archives without a builder
//	fake        a runtime for tests
//
// Start reading at cri.
package runtime
