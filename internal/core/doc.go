// Package core groups the sync loop and the stages through which it takes each pod, and connects them: NewLoop
// and New need a container runtime, a machine and services of pods, real ones or those of tests. Nothing but the
// composition of the agent imports it.
//
//	agent      the loop: updates, results of probes, housekeeping
//	admit      may the pod run on this node?
//	worker     a goroutine and a life for each pod
//	observe    what the runtime holds of each pod
//	plan       which actions lead from the observed to the desired pod
//	execute    performs the actions
//	status     the status of a pod, as users read it
//	hostports  the host ports of pods of several agents on one machine
//	teardown   stops all pods of a node
//	review     what the agent would make of a manifest, without running it
//
// Start reading at core.go, then at agent.
package core
