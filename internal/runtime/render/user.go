package render

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// User is who an image wants its processes to be: a number or a name. With neither,
// they are root.
type User struct {
	UID  *int64
	Name string
}

// NeedsUser tells whether the user of its image has to be known before a container
// is made: a group goes only with a user, and whoever must not be root is checked.
func NeedsUser(p *v1.Pod, c *v1.Container) bool {
	return runAsUser(p, c) == nil && (mustNotBeRoot(p, c) || runAsGroup(p, c) != nil)
}

// CheckNonRoot refuses a container that must not run as root, and would, or might.
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

// user renders who the processes of a container are.
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

// groups renders which groups the processes of a pod are in besides their own, and
// whether those that an image names are among them.
func groups(pod *v1.PodSecurityContext) ([]int64, runtimeapi.SupplementalGroupsPolicy) {
	out := slices.Clone(pod.SupplementalGroups)
	if pod.FSGroup != nil { // or they could not use what their volumes hold
		out = append(out, *pod.FSGroup)
	}
	if pod.SupplementalGroupsPolicy != nil && *pod.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict {
		return out, runtimeapi.SupplementalGroupsPolicy_Strict
	}
	return out, runtimeapi.SupplementalGroupsPolicy_Merge
}

// sandboxUser renders who the sandbox of a pod runs as: nobody who may do more than
// the pod. Without a user that is left to its image, and so is the group: runtimes
// refuse one that goes with no user.
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
