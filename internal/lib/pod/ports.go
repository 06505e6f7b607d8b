package pod

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PortNumber returns the number of the port of a hook or a probe of c, which may be given by its
// number or by the name of one of c's ports.
func PortNumber(c *v1.Container, port intstr.IntOrString) (int, error) {
	number := port.IntValue() // 0 for a name
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
