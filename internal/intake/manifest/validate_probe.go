package manifest

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateProbes(c *v1.Container, at *field.Path) field.ErrorList {
	errs := validateProbe(c.LivenessProbe, at.Child("livenessProbe"))
	errs = append(errs, validateProbe(c.StartupProbe, at.Child("startupProbe"))...)
	errs = append(errs, validateProbe(c.ReadinessProbe, at.Child("readinessProbe"))...)
	errs = append(errs, validateSuccessThreshold(c.LivenessProbe, at.Child("livenessProbe"))...)
	errs = append(errs, validateSuccessThreshold(c.StartupProbe, at.Child("startupProbe"))...)
	if p := c.ReadinessProbe; p != nil && p.TerminationGracePeriodSeconds != nil {
		errs = append(errs, field.Invalid(at.Child("readinessProbe", "terminationGracePeriodSeconds"), *p.TerminationGracePeriodSeconds, "must not be set for readinessProbes"))
	}
	return errs
}

// validateSuccessThreshold validates a liveness or startup probe, whose successThreshold must be 1.
func validateSuccessThreshold(p *v1.Probe, at *field.Path) field.ErrorList {
	if p == nil || p.SuccessThreshold == 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("successThreshold"), p.SuccessThreshold, "must be 1")}
}

func validateProbe(p *v1.Probe, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	h := v1.LifecycleHandler{Exec: p.Exec, HTTPGet: p.HTTPGet, TCPSocket: p.TCPSocket}
	errs, set := validateHandler(h, at)
	if p.GRPC != nil {
		set = append(set, "grpc")
		errs = append(errs, portNumber(p.GRPC.Port, at.Child("grpc", "port"))...)
	}
	errs = append(errs, exactlyOne(set, "exec, httpGet, tcpSocket, grpc", at)...)
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds},
		{"timeoutSeconds", p.TimeoutSeconds},
		{"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold},
		{"failureThreshold", p.FailureThreshold},
	} {
		errs = append(errs, apivalidation.ValidateNonnegativeField(int64(n.value), at.Child(n.name))...)
	}
	if g := p.TerminationGracePeriodSeconds; g != nil && *g <= 0 {
		errs = append(errs, field.Invalid(at.Child("terminationGracePeriodSeconds"), *g, "must be greater than 0"))
	}
	return errs
}

func validateLifecycle(l *v1.Lifecycle, grace int64, at *field.Path) field.ErrorList {
	if l == nil {
		return nil
	}
	var errs field.ErrorList
	for _, hook := range []struct {
		name    string
		handler *v1.LifecycleHandler
	}{{"postStart", l.PostStart}, {"preStop", l.PreStop}} {
		if hook.handler == nil {
			continue
		}
		at := at.Child(hook.name)
		found, set := validateHandler(*hook.handler, at)
		errs = append(errs, found...)
		if s := hook.handler.Sleep; s != nil {
			set = append(set, "sleep")
			if s.Seconds < 0 || s.Seconds > grace {
				errs = append(errs, field.Invalid(at.Child("sleep", "seconds"), s.Seconds, fmt.Sprintf("must be non-negative and not more than terminationGracePeriodSeconds (%d)", grace)))
			}
		}
		errs = append(errs, exactlyOne(set, "exec, httpGet, tcpSocket, sleep", at)...)
	}
	return errs
}

// validateHandler validates the handler of a probe or a hook. set are the handlers that are set.
func validateHandler(h v1.LifecycleHandler, at *field.Path) (errs field.ErrorList, set []string) {
	if h.Exec != nil {
		set = append(set, "exec")
		if len(h.Exec.Command) == 0 {
			errs = append(errs, field.Required(at.Child("exec", "command"), ""))
		}
	}
	if g := h.HTTPGet; g != nil {
		set = append(set, "httpGet")
		at := at.Child("httpGet")
		errs = append(errs, validateHandlerPort(g.Port, at.Child("port"))...)
		errs = append(errs, oneOf(g.Scheme, at.Child("scheme"), v1.URISchemeHTTP, v1.URISchemeHTTPS)...)
		for i, header := range g.HTTPHeaders {
			errs = append(errs, required(header.Name, at.Child("httpHeaders").Index(i).Child("name"), validation.IsHTTPHeaderName)...)
		}
	}
	if h.TCPSocket != nil {
		set = append(set, "tcpSocket")
		errs = append(errs, validateHandlerPort(h.TCPSocket.Port, at.Child("tcpSocket", "port"))...)
	}
	return errs, set
}

func validateHandlerPort(port intstr.IntOrString, at *field.Path) field.ErrorList {
	if port.Type == intstr.String {
		return required(port.StrVal, at, validation.IsValidPortName)
	}
	return portNumber(port.IntVal, at)
}
