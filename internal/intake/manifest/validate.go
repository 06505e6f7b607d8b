package manifest

import (
	"fmt"
	"regexp"
	"slices"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validate validates a pod that has its defaults. The rules are those of an API server, as
// far as a standalone node needs them; fields that can become part of a path are always
// checked.
func validate(p *v1.Pod) field.ErrorList {
	errs := validateMeta(&p.ObjectMeta)
	return append(errs, validateSpec(&p.Spec, field.NewPath("spec"))...)
}

func validateSpec(s *v1.PodSpec, at *field.Path) field.ErrorList {
	errs := oneOf(s.RestartPolicy, at.Child("restartPolicy"), v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever)
	errs = append(errs, apivalidation.ValidateNonnegativeField(*s.TerminationGracePeriodSeconds, at.Child("terminationGracePeriodSeconds"))...)
	if d := s.ActiveDeadlineSeconds; d != nil && *d < 1 {
		errs = append(errs, field.Invalid(at.Child("activeDeadlineSeconds"), *d, "must be greater than 0"))
	}
	errs = append(errs, optional(s.Hostname, at.Child("hostname"), validation.IsDNS1123Label)...)
	errs = append(errs, optional(s.Subdomain, at.Child("subdomain"), validation.IsDNS1123Label)...)
	errs = append(errs, optionalPtr(s.HostnameOverride, at.Child("hostnameOverride"), isHostname)...)
	errs = append(errs, optionalPtr(s.RuntimeClassName, at.Child("runtimeClassName"), validation.IsDNS1123Subdomain)...)
	errs = append(errs, optional(s.PriorityClassName, at.Child("priorityClassName"), validation.IsDNS1123Subdomain)...)
	for i, ref := range s.ImagePullSecrets {
		errs = append(errs, required(ref.Name, at.Child("imagePullSecrets").Index(i).Child("name"), validation.IsDNS1123Subdomain)...)
	}
	if s.OS != nil {
		errs = append(errs, oneOf(s.OS.Name, at.Child("os", "name"), v1.Linux, v1.Windows)...)
	}
	errs = append(errs, validateDNS(s, at)...)
	errs = append(errs, validateHostAliases(s.HostAliases, at.Child("hostAliases"))...)
	errs = append(errs, validateTolerations(s.Tolerations, at.Child("tolerations"))...)
	errs = append(errs, validatePodSecurity(s, at)...)
	if s.Resources != nil {
		errs = append(errs, validateResources(s.Resources, at.Child("resources"))...)
	}
	errs = append(errs, nonNegative(s.Overhead, at.Child("overhead"))...)

	volumes, volumeErrs := validateVolumes(s.Volumes, at.Child("volumes"))
	errs = append(errs, volumeErrs...)
	return append(errs, validateContainers(s, volumes, at)...)
}

func isHostname(name string) []string {
	if len(name) > 64 {
		return []string{validation.MaxLenError(64)}
	}
	return validation.IsDNS1123Subdomain(name)
}

func validateDNS(s *v1.PodSpec, at *field.Path) field.ErrorList {
	errs := oneOf(s.DNSPolicy, at.Child("dnsPolicy"), v1.DNSClusterFirstWithHostNet, v1.DNSClusterFirst, v1.DNSDefault, v1.DNSNone)
	at = at.Child("dnsConfig")
	c := s.DNSConfig
	if s.DNSPolicy == v1.DNSNone && (c == nil || len(c.Nameservers) == 0) {
		errs = append(errs, field.Required(at.Child("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None"))
	}
	if c == nil {
		return errs
	}
	const maxNameservers, maxSearches = 3, 32
	if len(c.Nameservers) > maxNameservers {
		errs = append(errs, field.TooMany(at.Child("nameservers"), len(c.Nameservers), maxNameservers))
	}
	for i, ip := range c.Nameservers {
		errs = append(errs, validation.IsValidIP(at.Child("nameservers").Index(i), ip)...)
	}
	if len(c.Searches) > maxSearches {
		errs = append(errs, field.TooMany(at.Child("searches"), len(c.Searches), maxSearches))
	}
	for i, domain := range c.Searches {
		if domain != "." {
			errs = append(errs, required(domain, at.Child("searches").Index(i), isSearchDomain)...)
		}
	}
	for i, option := range c.Options {
		errs = append(errs, required(option.Name, at.Child("options").Index(i).Child("name"), isOneLine)...)
		if option.Value != nil {
			errs = append(errs, optional(*option.Value, at.Child("options").Index(i).Child("value"), isOneLine)...)
		}
	}
	return errs
}

func isSearchDomain(domain string) []string {
	if last := len(domain) - 1; domain[last] == '.' {
		domain = domain[:last]
	}
	return validation.IsDNS1123SubdomainWithUnderscore(domain)
}

// isOneLine refuses values with line breaks, which would add lines to resolv.conf or hosts.
func isOneLine(value string) []string {
	if regexp.MustCompile(`[[:space:][:cntrl:]]`).MatchString(value) {
		return []string{"must not contain spaces or line breaks"}
	}
	return nil
}

func validateHostAliases(aliases []v1.HostAlias, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, a := range aliases {
		errs = append(errs, validation.IsValidIP(at.Index(i).Child("ip"), a.IP)...)
		for j, name := range a.Hostnames {
			errs = append(errs, required(name, at.Index(i).Child("hostnames").Index(j), validation.IsDNS1123Subdomain)...)
		}
	}
	return errs
}

func validateTolerations(tolerations []v1.Toleration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range tolerations {
		at := at.Index(i)
		if t.Key != "" {
			errs = append(errs, metavalidation.ValidateLabelName(t.Key, at.Child("key"))...)
		} else if t.Operator != v1.TolerationOpExists {
			errs = append(errs, field.Invalid(at.Child("operator"), t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		errs = append(errs, oneOf(t.Operator, at.Child("operator"), "", v1.TolerationOpEqual, v1.TolerationOpExists, v1.TolerationOpLt, v1.TolerationOpGt)...)
		if t.Operator == v1.TolerationOpExists {
			if t.Value != "" {
				errs = append(errs, field.Invalid(at.Child("value"), t.Value, "value must be empty when `operator` is 'Exists'"))
			}
		} else {
			errs = append(errs, optional(t.Value, at.Child("value"), validation.IsValidLabelValue)...)
		}
		if t.TolerationSeconds != nil && t.Effect != v1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		errs = append(errs, oneOf(t.Effect, at.Child("effect"), "", v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute)...)
	}
	return errs
}

// required validates a text that must be set and pass check.
func required(value string, at *field.Path, check func(string) []string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return optional(value, at, check)
}

// optional validates a text that must pass check if it is set.
func optional(value string, at *field.Path, check func(string) []string) field.ErrorList {
	if value == "" {
		return nil
	}
	var errs field.ErrorList
	for _, message := range check(value) {
		errs = append(errs, field.Invalid(at, value, message))
	}
	return errs
}

func optionalPtr(value *string, at *field.Path, check func(string) []string) field.ErrorList {
	if value == nil {
		return nil
	}
	return required(*value, at, check)
}

// oneOf checks that a value is one of the known ones.
func oneOf[T ~string](value T, at *field.Path, known ...T) field.ErrorList {
	if slices.Contains(known, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, slices.DeleteFunc(known, func(k T) bool { return k == "" }))}
}

// exactlyOne checks that exactly one of several fields is set. set are the fields that are, what
// lists all of them for messages.
func exactlyOne(set []string, what string, at *field.Path) field.ErrorList {
	switch len(set) {
	case 1:
		return nil
	case 0:
		return field.ErrorList{field.Required(at, "must specify one of "+what)}
	default:
		return field.ErrorList{field.Forbidden(at.Child(set[1]), fmt.Sprintf("may not specify more than one of %s: %s is set too", what, set[0]))}
	}
}

// checkUnique checks that a value is not in seen, and adds it. An empty value is not checked.
func checkUnique(value string, at *field.Path, seen sets.Set[string]) field.ErrorList {
	if value != "" && seen.Has(value) {
		return field.ErrorList{field.Duplicate(at, value)}
	}
	seen.Insert(value)
	return nil
}
