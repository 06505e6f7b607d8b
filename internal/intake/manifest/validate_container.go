package manifest

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateContainers(s *v1.PodSpec, volumes map[string]v1.VolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(s.Containers) == 0 {
		errs = append(errs, field.Required(at.Child("containers"), "a pod needs at least one container"))
	}
	if len(s.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(at.Child("ephemeralContainers"), "a manifest can't have them: they are added to a running pod"))
	}
	names, hostPorts := sets.New[string](), sets.New[string]()
	for i := range s.InitContainers {
		c, at := &s.InitContainers[i], at.Child("initContainers").Index(i)
		errs = append(errs, validateContainer(c, s, volumes, names, at)...)
		if isSidecar(c) {
			// Other init containers have ended before the ports of containers are bound.
			errs = append(errs, validateHostPorts(c.Ports, hostPorts, at.Child("ports"))...)
		} else {
			errs = append(errs, validatePlainInit(c, at)...)
		}
	}
	for i := range s.Containers {
		c, at := &s.Containers[i], at.Child("containers").Index(i)
		errs = append(errs, validateContainer(c, s, volumes, names, at)...)
		errs = append(errs, validateHostPorts(c.Ports, hostPorts, at.Child("ports"))...)
	}
	return errs
}

// isSidecar reports whether an init container is a sidecar: it runs for the life of the pod.
func isSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// validatePlainInit refuses fields of an init container that only a sidecar may have.
func validatePlainInit(c *v1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	const why = "may not be set for init containers without restartPolicy=Always"
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"lifecycle", c.Lifecycle != nil},
		{"livenessProbe", c.LivenessProbe != nil},
		{"readinessProbe", c.ReadinessProbe != nil},
		{"startupProbe", c.StartupProbe != nil},
	} {
		if f.set {
			errs = append(errs, field.Forbidden(at.Child(f.name), why))
		}
	}
	return errs
}

func validateContainer(c *v1.Container, s *v1.PodSpec, volumes map[string]v1.VolumeSource, names sets.Set[string], at *field.Path) field.ErrorList {
	errs := required(c.Name, at.Child("name"), validation.IsDNS1123Label)
	errs = append(errs, checkUnique(c.Name, at.Child("name"), names)...)
	errs = append(errs, required(c.Image, at.Child("image"), isImage)...)
	errs = append(errs, oneOf(c.ImagePullPolicy, at.Child("imagePullPolicy"), v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)...)
	errs = append(errs, oneOf(c.TerminationMessagePolicy, at.Child("terminationMessagePolicy"), v1.TerminationMessageReadFile, v1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, validateRestart(c, at)...)
	errs = append(errs, validatePorts(c.Ports, s.HostNetwork, at.Child("ports"))...)
	errs = append(errs, validateEnv(c, volumes, at)...)
	errs = append(errs, validateMounts(c, volumes, at)...)
	errs = append(errs, validateProbes(c, at)...)
	errs = append(errs, validateLifecycle(c.Lifecycle, *s.TerminationGracePeriodSeconds, at.Child("lifecycle"))...)
	errs = append(errs, validateResources(&c.Resources, at.Child("resources"))...)
	errs = append(errs, validateResize(c.ResizePolicy, at.Child("resizePolicy"))...)
	return append(errs, validateSecurity(c.SecurityContext, at.Child("securityContext"))...)
}

func isImage(image string) []string {
	if strings.TrimSpace(image) != image {
		return []string{"must not have leading or trailing whitespace"}
	}
	if strings.ContainsAny(image, " \t\r\n") {
		return []string{"must not contain whitespace"}
	}
	return nil
}

func validateRestart(c *v1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.RestartPolicy != nil {
		errs = append(errs, oneOf(*c.RestartPolicy, at.Child("restartPolicy"), v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever)...)
	} else if len(c.RestartPolicyRules) > 0 {
		errs = append(errs, field.Required(at.Child("restartPolicy"), "must specify restartPolicy when restartPolicyRules are used"))
	}
	for i, rule := range c.RestartPolicyRules {
		at := at.Child("restartPolicyRules").Index(i)
		errs = append(errs, oneOf(rule.Action, at.Child("action"), v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers)...)
		if rule.ExitCodes == nil {
			errs = append(errs, field.Required(at.Child("exitCodes"), "must be specified"))
			continue
		}
		errs = append(errs, oneOf(rule.ExitCodes.Operator, at.Child("exitCodes", "operator"), v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn)...)
	}
	return errs
}

func validatePorts(ports []v1.ContainerPort, hostNetwork bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i, p := range ports {
		at := at.Index(i)
		errs = append(errs, optional(p.Name, at.Child("name"), validation.IsValidPortName)...)
		errs = append(errs, checkUnique(p.Name, at.Child("name"), names)...)
		if p.ContainerPort == 0 {
			errs = append(errs, field.Required(at.Child("containerPort"), ""))
		} else {
			errs = append(errs, portNumber(p.ContainerPort, at.Child("containerPort"))...)
		}
		if p.HostPort != 0 {
			errs = append(errs, portNumber(p.HostPort, at.Child("hostPort"))...)
			if hostNetwork && p.HostPort != p.ContainerPort {
				errs = append(errs, field.Invalid(at.Child("hostPort"), p.HostPort, "must match `containerPort` when `hostNetwork` is true"))
			}
		}
		if p.HostIP != "" {
			errs = append(errs, validation.IsValidIP(at.Child("hostIP"), p.HostIP)...)
		}
		errs = append(errs, oneOf(p.Protocol, at.Child("protocol"), v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP)...)
	}
	return errs
}

func portNumber(port int32, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsValidPortNum(int(port)) {
		errs = append(errs, field.Invalid(at, port, message))
	}
	return errs
}

// validateHostPorts refuses a host port that the pod has twice.
func validateHostPorts(ports []v1.ContainerPort, taken sets.Set[string], at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, p := range ports {
		if p.HostPort != 0 {
			errs = append(errs, checkUnique(fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort), at.Index(i).Child("hostPort"), taken)...)
		}
	}
	return errs
}

func validateResize(policies []v1.ContainerResizePolicy, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, p := range policies {
		errs = append(errs, oneOf(p.ResourceName, at.Index(i).Child("resourceName"), v1.ResourceCPU, v1.ResourceMemory)...)
		errs = append(errs, oneOf(p.RestartPolicy, at.Index(i).Child("restartPolicy"), v1.NotRequired, v1.RestartContainer)...)
	}
	return errs
}
