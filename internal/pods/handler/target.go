// Package handler has what hooks and probes have in common: the container that they are
// about, where to connect to it, and how to ask it something over HTTP. It is free of
// state, and decides nothing about answers.
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

// Target is the container whose hook is run, or which is probed.
type Target struct {
	Pod         *v1.Pod
	Container   *v1.Container
	ContainerID string // the runtime's, for exec
	PodIP       string // where httpGet and tcpSocket go if no host is named
}

// Address is where a hook or a probe connects to: the host that it names, else the pod.
func Address(t Target, host string, port intstr.IntOrString) (string, error) {
	if host == "" {
		host = t.PodIP
	}
	if host == "" {
		return "", errors.New("the pod has no address yet, and no host is named")
	}
	// People write IPv6 addresses as they stand in URLs, too.
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
