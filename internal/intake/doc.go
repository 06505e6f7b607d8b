// Package intake groups the way of pods into the agent: from a folder, a URL or an API server to
// updates of the set of desired pods. It may be imported by core.
//
//	source    snapshots of the pods of a folder, a URL, an API server
//	manifest  decodes, defaults and validates manifests
//	merge     the difference between two snapshots, as updates
//	desired   the set of pods that the node is asked to run
//	objects   ConfigMaps, Secrets, claims and other objects that pods refer to
//
// Start reading at source.
package intake
