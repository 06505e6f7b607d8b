package hook

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// address is where a hook connects to: the host that it names, else the pod.
func address(t Target, host string, port intstr.IntOrString) (string, error) {
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
	number, err := portNumber(t.Container, port)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(number)), nil
}

func portNumber(c *v1.Container, port intstr.IntOrString) (int, error) {
	number := port.IntValue() // of a name that is no number: 0
	if port.Type == intstr.String {
		var names []string
		for _, p := range c.Ports {
			if p.Name != "" && p.Name == port.StrVal {
				return int(p.ContainerPort), nil
			}
			if p.Name != "" {
				names = append(names, p.Name)
			}
		}
		if _, err := strconv.Atoi(port.StrVal); err != nil {
			return 0, unknownPort(port.StrVal, names)
		}
	}
	if number < 1 || number > 65535 {
		return 0, fmt.Errorf("port %s is not between 1 and 65535", port.String())
	}
	return number, nil
}

func unknownPort(name string, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf("port %q is unknown: none of the container's ports has a name", name)
	}
	return fmt.Errorf("port %q is unknown: the container's ports are %s", name, strings.Join(known, ", "))
}
