package keyring

import (
	"path"
	"strings"
)

// NormalizePattern is a pattern as it is compared: without a scheme, and without the version
// of the registry's API that docker puts behind the host.
func NormalizePattern(pattern string) string {
	for _, scheme := range []string{"https://", "http://"} {
		pattern = strings.TrimPrefix(pattern, scheme)
	}
	host, rest, _ := strings.Cut(pattern, "/")
	for _, version := range []string{"v1", "v2"} {
		if rest == version {
			rest = ""
		}
		rest = strings.TrimPrefix(rest, version+"/")
	}
	if rest = strings.TrimRight(rest, "/"); rest == "" {
		return host
	}
	return host + "/" + rest
}

// Match reports whether a pattern is for a repository. The parts of the host, between
// the dots, match one by one and may have wildcards; the port must be the same; the
// path of the pattern is how that of the repository begins.
func Match(pattern, repository string) bool {
	host, rest, _ := strings.Cut(NormalizePattern(pattern), "/")
	toHost, toRest, _ := strings.Cut(repository, "/")
	name, port, _ := strings.Cut(host, ":")
	toName, toPort, _ := strings.Cut(toHost, ":")
	if port != toPort || !strings.HasPrefix(toRest, rest) {
		return false
	}
	parts, toParts := strings.Split(name, "."), strings.Split(toName, ".")
	if len(parts) != len(toParts) {
		return false
	}
	for i := range parts {
		if ok, err := path.Match(parts[i], toParts[i]); !ok || err != nil {
			return false
		}
	}
	return true
}

// ValidatePattern returns an error for a pattern that can't be matched.
func ValidatePattern(pattern string) error {
	host, _, _ := strings.Cut(NormalizePattern(pattern), "/")
	_, err := path.Match(host, "")
	return err
}
