// Package telemetry groups what is recorded and measured of pods and the node. It may be imported by
// core; it never holds up a pod.
//
//	event      Kubernetes events
//	metrics    Prometheus metrics
//	stats      CPU, memory, disk and network in use
//	oom        processes that the kernel killed because memory was used up
//	trace      OpenTelemetry spans
//	waterfall  the phases of the start of each pod
//	measure    feeds metrics, traces and waterfalls from the hooks of core and pods
//
// Start reading at event.
package telemetry
