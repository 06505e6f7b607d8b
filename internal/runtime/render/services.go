package render

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// masterService and masterNamespace name the Service of the API server. Pods of all namespaces get
// its variables.
const (
	masterService   = "kubernetes"
	masterNamespace = v1.NamespaceDefault
)

// serviceVariables returns the variables of service links: NAME_SERVICE_HOST, NAME_PORT and so on. Pods
// with enableServiceLinks: false get only the variables of the API server.
func serviceVariables(p *v1.Pod, services []*v1.Service) []Variable {
	links := p.Spec.EnableServiceLinks == nil || *p.Spec.EnableServiceLinks
	chosen := map[string]*v1.Service{}
	for _, s := range services {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == v1.ClusterIPNone || len(s.Spec.Ports) == 0 {
			continue
		}
		master := s.Namespace == masterNamespace && s.Name == masterService
		switch {
		case links && s.Namespace == p.Namespace:
			chosen[s.Name] = s // a service of its namespace hides the API server's of the same name
		case master && chosen[s.Name] == nil:
			chosen[s.Name] = s
		}
	}
	var sorted []*v1.Service
	for _, s := range chosen {
		sorted = append(sorted, s)
	}
	slices.SortFunc(sorted, func(a, b *v1.Service) int { return cmp.Compare(a.Name, b.Name) })

	var out []Variable
	for _, s := range sorted {
		out = append(out, variablesOf(s)...)
	}
	return out
}

func variablesOf(s *v1.Service) []Variable {
	name := variableName(s.Name)
	host := s.Spec.ClusterIP
	first := &s.Spec.Ports[0]
	out := []Variable{
		{name + "_SERVICE_HOST", host},
		{name + "_SERVICE_PORT", strconv.Itoa(int(first.Port))},
	}
	for i := range s.Spec.Ports {
		if port := &s.Spec.Ports[i]; port.Name != "" {
			out = append(out, Variable{name + "_SERVICE_PORT_" + variableName(port.Name), strconv.Itoa(int(port.Port))})
		}
	}
	out = append(out, Variable{name + "_PORT", portURL(host, first)})
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		prefix := fmt.Sprintf("%s_PORT_%d_%s", name, port.Port, portProtocol(port))
		out = append(out,
			Variable{prefix, portURL(host, port)},
			Variable{prefix + "_PROTO", strings.ToLower(portProtocol(port))},
			Variable{prefix + "_PORT", strconv.Itoa(int(port.Port))},
			Variable{prefix + "_ADDR", host},
		)
	}
	return out
}

func portURL(host string, port *v1.ServicePort) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("%s://%s:%d", strings.ToLower(portProtocol(port)), host, port.Port)
}

func portProtocol(port *v1.ServicePort) string {
	return string(cmp.Or(port.Protocol, v1.ProtocolTCP))
}

// variableName turns the name of a service or port into a part of a variable's name.
func variableName(s string) string {
	return strings.ToUpper(strings.ReplaceAll(s, "-", "_"))
}
