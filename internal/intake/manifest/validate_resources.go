package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateResources(r *v1.ResourceRequirements, at *field.Path) field.ErrorList {
	errs := nonNegative(r.Limits, at.Child("limits"))
	errs = append(errs, nonNegative(r.Requests, at.Child("requests"))...)
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		limit, limited := r.Limits[name]
		request := r.Requests[name]
		at := at.Child("requests").Key(string(name))
		switch {
		case limited && request.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(at, request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		case limited && !mayOvercommit(name) && request.Cmp(limit) < 0:
			errs = append(errs, field.Invalid(at, request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case !limited && !mayOvercommit(name):
			errs = append(errs, field.Required(at, "Limit must be set for non overcommitable resources"))
		}
	}
	return errs
}

// mayOvercommit reports whether the limit of a resource may be higher than its request. Huge pages
// and devices can't be shared.
func mayOvercommit(name v1.ResourceName) bool {
	switch name {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage:
		return true
	default:
		return false
	}
}

func nonNegative(list v1.ResourceList, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at := at.Key(string(name))
		errs = append(errs, required(string(name), at, isResource)...)
		q := list[name]
		if q.Sign() < 0 {
			errs = append(errs, field.Invalid(at, q.String(), "must be greater than or equal to 0"))
		}
	}
	return errs
}

func isResource(name string) []string {
	if mayOvercommit(v1.ResourceName(name)) || strings.HasPrefix(name, v1.ResourceHugePagesPrefix) {
		return validation.IsQualifiedName(name)
	}
	if !strings.Contains(name, "/") {
		return []string{"must be a standard resource for containers, or have a domain in front as in example.com/name"}
	}
	return validation.IsQualifiedName(name)
}
