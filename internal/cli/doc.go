// Package cli is the command line of berth: 'berth run' is the agent, the other commands ask it over
// its local socket, or another node over its HTTPS port. Nothing but main imports it.
//
//	agent      run, kubelet, down, drain
//	pods       get pods, describe pod, top pods, logs, exec, attach, port-forward, cp, debug, waterfall
//	nodes      get node, describe node, top node, doctor
//	events     get events
//	images     get images, image, gc
//	volumes    get volumes
//	manifests  validate, diff
//	cmdutil    flags, connections, colours and exit codes of all commands
//	printers   objects as text
//	clitest    an agent for tests of commands
//
// Commands import the composition of the agent (app), its configuration and its APIs, and none of the agent's parts.
// Start reading at pods.
package cli
