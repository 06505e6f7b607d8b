package manifest

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth/internal/intake/manifest/strict"
)

// kind is the API version, scope and decoder of a kind of object.
type kind struct {
	version       string
	clusterScoped bool // objects have no namespace
	read          func(strict.Document) (Object, []Problem)
}

// kinds are the kinds of objects that manifests may have.
var kinds = map[string]kind{
	"Pod": {version: "v1", read: func(d strict.Document) (Object, []Problem) {
		return decode(d, d.Decode, preparePod, validate)
	}},
	"ConfigMap": {version: "v1", read: func(d strict.Document) (Object, []Problem) {
		return decode(d, d.Decode, prepareConfigMap, validateConfigMap)
	}},
	"Secret": {version: "v1", read: func(d strict.Document) (Object, []Problem) {
		o, found := decode(d, d.DecodeSecret, prepareSecret, validateSecret)
		if s, ok := o.(*v1.Secret); ok {
			mergeStringData(s) // after validation, so that a problem has the line of stringData
		}
		return o, found
	}},
	"PersistentVolume": {version: "v1", clusterScoped: true, read: func(d strict.Document) (Object, []Problem) {
		return decode(d, d.Decode, prepareVolume, validatePersistentVolume)
	}},
	"PersistentVolumeClaim": {version: "v1", read: func(d strict.Document) (Object, []Problem) {
		return decode(d, d.Decode, prepareClaim, validateClaim)
	}},
	"RuntimeClass": {version: nodev1.SchemeGroupVersion.String(), clusterScoped: true, read: func(d strict.Document) (Object, []Problem) {
		return decode(d, d.Decode, prepareClass, validateClass)
	}},
}

// acceptedKinds lists the kinds in messages.
const acceptedKinds = "Pod, ConfigMap, Secret, RuntimeClass, PersistentVolume, PersistentVolumeClaim, and lists of these"

// listKind is a kind of list: a List of any objects, with an empty item, or a list of the kind item,
// such as PodList.
type listKind struct{ version, item string }

func parseListKind(name string) (listKind, bool) {
	item, isList := strings.CutSuffix(name, "List")
	if !isList {
		return listKind{}, false
	}
	if item == "" {
		return listKind{version: "v1"}, true
	}
	k, known := kinds[item]
	return listKind{version: k.version, item: item}, known
}

// isClusterKind reports whether a kind that berth does not accept is known to clusters, and not a
// typing error: all kinds of other API groups are, and some of v1.
func isClusterKind(version, kind string) bool {
	if len(validation.IsDNS1123Label(strings.ToLower(kind))) > 0 {
		return false
	}
	if strings.Contains(version, "/") {
		return version != nodev1.SchemeGroupVersion.String()
	}
	return version == "v1" && slices.Contains([]string{
		"Binding", "Endpoints", "Event", "LimitRange", "Namespace", "Node", "PodTemplate", "ReplicationController", "ResourceQuota",
		"Service", "ServiceAccount",
	}, kind)
}

// decode decodes an object, prepares it (defaults, metadata) and validates it.
func decode[T any, P interface {
	*T
	Object
}](d strict.Document, read func(any) []strict.Error, prepare func(P), check func(P) field.ErrorList) (Object, []Problem) {
	var found []Problem
	o := P(new(T))
	for _, e := range read(o) {
		found = append(found, Problem{Line: e.Line, Message: e.Error()})
	}
	if len(found) > 0 {
		return nil, found
	}
	prepare(o)
	for _, e := range check(o) {
		found = append(found, Problem{Line: d.LineOf(e.Field), Message: e.Error()})
	}
	return o, found
}

// identity returns the namespace and name of a document that may be invalid, or "" if they are not
// valid themselves.
func identity(d strict.Document, kind string) (namespace, name string) {
	k, known := kinds[kind]
	namespace, name = d.Text("metadata", "namespace"), d.Text("metadata", "name")
	switch {
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return "", ""
	case k.clusterScoped:
		return "", name
	case known:
		namespace = cmp.Or(namespace, metav1.NamespaceDefault)
	}
	if namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0 {
		return "", ""
	}
	return namespace, name
}

// keptMetadata returns the metadata that has a meaning in a manifest. Manifests are often made from
// the output of kubectl get, which has more.
func keptMetadata(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, Labels: m.Labels, Annotations: m.Annotations,
		DeletionTimestamp: m.DeletionTimestamp, // validation refuses it
	}
}

// preparePod drops the fields that only an API server sets, and sets defaults.
func preparePod(p *v1.Pod) {
	dropServerFields(p)
	setDefaults(p)
}
