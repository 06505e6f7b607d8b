// Package cluster groups what a node does as a member of a cluster. Nothing but the composition of the
// agent imports it.
//
//	kubeclient  clients of the API server
//	podcert     certificates of pods (podCertificate sources of volumes)
//	cert        client and serving certificates of the node
//	node        the Node object, its conditions and its Lease
//	mirror      mirror pods of static pods
//	upstream    statuses and mirror pods on their way to the API server
//	shutdown    drain of the node, and shutdown of the machine
//
// Start reading at node.
package cluster
