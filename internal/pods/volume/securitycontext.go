package volume

import (
	"io/fs"
	"syscall"

	v1 "k8s.io/api/core/v1"
)

// owner returns the user and the group of a file.
func owner(info fs.FileInfo) (uid, gid int) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid), int(st.Gid)
	}
	return -1, -1
}

// fsGroup returns the fsGroup of a pod, or -1.
func fsGroup(p *v1.Pod) int {
	if p.Spec.SecurityContext == nil || p.Spec.SecurityContext.FSGroup == nil {
		return -1
	}
	return int(*p.Spec.SecurityContext.FSGroup)
}

// commonUser returns the user that all containers of a pod run as, or -1 if they differ or don't say.
func commonUser(p *v1.Pod) int {
	of := func(c *v1.SecurityContext) int {
		switch {
		case c != nil && c.RunAsUser != nil:
			return int(*c.RunAsUser)
		case p.Spec.SecurityContext != nil && p.Spec.SecurityContext.RunAsUser != nil:
			return int(*p.Spec.SecurityContext.RunAsUser)
		default:
			return -1
		}
	}
	var users []int
	for i := range p.Spec.Containers {
		users = append(users, of(p.Spec.Containers[i].SecurityContext))
	}
	for i := range p.Spec.InitContainers {
		users = append(users, of(p.Spec.InitContainers[i].SecurityContext))
	}
	for i := range p.Spec.EphemeralContainers {
		users = append(users, of(p.Spec.EphemeralContainers[i].SecurityContext))
	}
	for _, u := range users {
		if u != users[0] {
			return -1
		}
	}
	if len(users) == 0 {
		return -1
	}
	return users[0]
}
