//go:build real && machine

package app

// How much of TestHostilePods is played on the emulated machine, where a trick takes about half a minute:
// those that aim at the agent's memory, which version 2 of cgroups limits and counts in another way.
// Elsewhere all are.
const (
	allTricks      = false
	namesInAFolder = 50_000
)
