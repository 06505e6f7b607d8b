package cri

import "slices"

// CanMapUsers reports whether the handler with that name can run a pod in a user namespace.
func CanMapUsers(handlers []Handler, name string) bool {
	return slices.ContainsFunc(handlers, func(h Handler) bool { return h.Name == name && h.UserNamespaces })
}

// CanMountReadOnlyRecursively reports whether mounts below a read-only mount can be read-only, too, in pods
// of a runtime class. The handler of a class is not known before its pod is run, so all handlers have
// to be able to. class is "" for pods without a class, which run with the default handler.
func CanMountReadOnlyRecursively(handlers []Handler, class string) bool {
	all := len(handlers) > 0
	for _, h := range handlers {
		if h.Name == "" && class == "" {
			return h.RecursiveReadOnlyMounts
		}
		all = all && h.RecursiveReadOnlyMounts
	}
	return all
}
