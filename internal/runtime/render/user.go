package render

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// User is the user in the configuration of an image: a number or a name. If it has neither, the
// user is root.
type User struct {
	UID  *int64
	Name string
}

// NeedsUser reports whether the user of its image has to be known before a container is created: for
// runAsNonRoot, and because CRI takes a group only together with a user.
func NeedsUser(p *v1.Pod, c *v1.Container) bool {
	return runAsUser(p, c) == nil && (mustNotBeRoot(p, c) || runAsGroup(p, c) != nil)
}

// CheckNonRoot returns an error for a container with runAsNonRoot that would run as root, or as a
// user of unknown number.
func CheckNonRoot(p *v1.Pod, c *v1.Container, image *User) error {
	if !mustNotBeRoot(p, c) {
		return nil
	}
	at := fmt.Sprintf("(pod: %q, container: %s)", p.Name+"_"+p.Namespace+"("+string(p.UID)+")", c.Name)
	if user := runAsUser(p, c); user != nil {
		if *user == 0 {
			return fmt.Errorf("container's runAsUser breaks non-root policy %s", at)
		}
		return nil
	}
	switch {
	case image == nil, image.UID == nil && image.Name == "", image.UID != nil && *image.UID == 0:
		return fmt.Errorf("container has runAsNonRoot and image will run as root %s", at)
	case image.UID == nil:
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root %s", image.Name, at)
	default:
		return nil
	}
}

// user renders the user of a container.
func user(out *runtimeapi.LinuxContainerSecurityContext, p *v1.Pod, c *v1.Container, image *User) {
	out.RunAsUser = int64Value(runAsUser(p, c))
	if out.RunAsUser != nil || image == nil {
		return
	}
	switch {
	case image.UID != nil:
		out.RunAsUser = int64Value(image.UID)
	case image.Name != "":
		out.RunAsUsername = image.Name
	default:
		out.RunAsUser = &runtimeapi.Int64Value{}
	}
}

// groups renders the supplemental groups of a pod, and whether the groups of the image are added.
func groups(pod *v1.PodSecurityContext) ([]int64, runtimeapi.SupplementalGroupsPolicy) {
	out := slices.Clone(pod.SupplementalGroups)
	if pod.FSGroup != nil { // it owns the files in the volumes
		out = append(out, *pod.FSGroup)
	}
	if pod.SupplementalGroupsPolicy != nil && *pod.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict {
		return out, runtimeapi.SupplementalGroupsPolicy_Strict
	}
	return out, runtimeapi.SupplementalGroupsPolicy_Merge
}

// sandboxUser renders the user and groups of the sandbox: those of the pod. Without a runAsUser, the
// user is that of the pause image, and the group is left out: runtimes refuse a group without a user.
func sandboxUser(out *runtimeapi.LinuxSandboxSecurityContext, pod *v1.PodSecurityContext) {
	if pod == nil {
		return
	}
	out.RunAsUser = int64Value(pod.RunAsUser)
	if pod.RunAsUser != nil {
		out.RunAsGroup = int64Value(pod.RunAsGroup)
	}
	out.SupplementalGroups, out.SupplementalGroupsPolicy = groups(pod)
}

func runAsUser(p *v1.Pod, c *v1.Container) *int64 {
	if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
		return c.SecurityContext.RunAsUser
	}
	if p.Spec.SecurityContext != nil {
		return p.Spec.SecurityContext.RunAsUser
	}
	return nil
}

func runAsGroup(p *v1.Pod, c *v1.Container) *int64 {
	if c.SecurityContext != nil && c.SecurityContext.RunAsGroup != nil {
		return c.SecurityContext.RunAsGroup
	}
	if p.Spec.SecurityContext != nil {
		return p.Spec.SecurityContext.RunAsGroup
	}
	return nil
}

func mustNotBeRoot(p *v1.Pod, c *v1.Container) bool {
	if c.SecurityContext != nil && c.SecurityContext.RunAsNonRoot != nil {
		return *c.SecurityContext.RunAsNonRoot
	}
	return p.Spec.SecurityContext != nil && p.Spec.SecurityContext.RunAsNonRoot != nil && *p.Spec.SecurityContext.RunAsNonRoot
}
