package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	v1 "k8s.io/api/core/v1"
)

// A hash covers the fields of a spec that the runtime gets when a container or sandbox is created,
// and that can't be changed without replacing it. Fields that only the agent uses
// (probes, hooks, pull policy) are left out.

// ContainerHash is the hash of the spec of a container.
func ContainerHash(c *v1.Container) string {
	return hash(struct {
		Image           string
		Command, Args   []string
		WorkingDir      string
		Env             []v1.EnvVar
		EnvFrom         []v1.EnvFromSource
		VolumeMounts    []v1.VolumeMount
		VolumeDevices   []v1.VolumeDevice
		SecurityContext *v1.SecurityContext
		Resources       v1.ResourceRequirements
		MessagePath     string
		Stdin, Once     bool
		TTY             bool
	}{
		c.Image, c.Command, c.Args, c.WorkingDir, c.Env, c.EnvFrom, c.VolumeMounts, c.VolumeDevices,
		c.SecurityContext, c.Resources, c.TerminationMessagePath, c.Stdin, c.StdinOnce, c.TTY,
	})
}

// SandboxHash is the hash of the spec of a sandbox.
func SandboxHash(p *v1.Pod) string {
	type hostPort struct {
		IP       string
		Host     int32
		To       int32
		Protocol v1.Protocol
	}
	var ports []hostPort
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.HostPort != 0 {
				ports = append(ports, hostPort{port.HostIP, port.HostPort, port.ContainerPort, port.Protocol})
			}
		}
	}
	s := &p.Spec
	return hash(struct {
		HostNetwork, HostPID, HostIPC bool
		ShareProcesses                *bool
		Hostname, Subdomain           string
		FQDN                          *bool
		DNSPolicy                     v1.DNSPolicy
		DNS                           *v1.PodDNSConfig
		RuntimeClass                  *string
		Security                      *v1.PodSecurityContext
		Ports                         []hostPort
	}{
		s.HostNetwork, s.HostPID, s.HostIPC, s.ShareProcessNamespace, s.Hostname, s.Subdomain, s.SetHostnameAsFQDN,
		s.DNSPolicy, s.DNSConfig, s.RuntimeClassName, s.SecurityContext, ports,
	})
}

func hash(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("plan: a pod spec that can't be encoded: " + err.Error()) // API types always encode
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
