// Package handler has what hooks and probes have in common: the target container, its address, and
// HTTP requests to it. It has no state, and does not judge responses.
package handler

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth/internal/lib/pod"
)

// Target is the container of a hook or a probe.
type Target struct {
	Pod         *v1.Pod
	Container   *v1.Container
	ContainerID string // of the runtime, for exec
	PodIP       string // the default host of httpGet and tcpSocket
}

// Address returns host:port of a hook or a probe. The default host is the pod.
func Address(t Target, host string, port intstr.IntOrString) (string, error) {
	if host == "" {
		host = t.PodIP
	}
	if host == "" {
		return "", errors.New("the pod has no address yet, and no host is named")
	}
	// IPv6 addresses may be written with brackets, as in URLs.
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	if strings.ContainsAny(host, "/?#@[]\\ \t\r\n") {
		return "", fmt.Errorf("host %q is neither a name nor an address: leave out scheme, port and path", host)
	}
	number, err := pod.PortNumber(t.Container, port)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(number)), nil
}
