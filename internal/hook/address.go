package hook

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"berth/internal/pod"
)

// Address is where a hook or a probe connects to: the host that it names, else the pod.
func Address(t Target, host string, port intstr.IntOrString) (string, error) {
	if host == "" {
		host = t.PodIP
	}
	if host == "" {
		return "", errors.New("the pod has no address yet, and the hook names no host")
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
