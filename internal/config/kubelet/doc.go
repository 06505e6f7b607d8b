// Package kubelet reads the command line and the configuration of an agent that was started as kubelet: all flags of
// kubelet 1.36, --config, the drop-ins of --config-dir, the kubelet's defaults and its validation.
//
//	fields.go        the table of configuration fields: which are in effect, and why the others are not
//	flags_*.go       the table of flags; most set a field
//	commandline.go   parses a command line
//	load.go          defaults, --config, drop-ins and flags, merged in this order
//	effects.go       warns of what was set and has no effect
//	validate*.go     refuses what the kubelet refuses
//
// docs/kubelet.md is made from the tables, and a test compares (document_test.go).
//
// The result is a KubeletConfiguration, which package config turns into the settings of the agent. Nothing of
// k8s.io/kubernetes is imported: tests compare the tables with testdata/upstream.json, which the kubelet's own code prints
// (test/lab/parts/kubernetes/facts).
package kubelet
