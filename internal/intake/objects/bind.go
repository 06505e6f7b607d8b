package objects

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// bindings are the names of the volumes that claims are bound to, by namespace/name of
// the claim.
type bindings map[string]string

func nameOf(c *v1.PersistentVolumeClaim) string { return c.Namespace + "/" + c.Name }

// bind decides which claim gets which volume, as a cluster would:
//
//  1. a claim gets the volume that it names, unless the volume names another claim,
//  2. else the volume that names it,
//  3. else the volume that it had,
//  4. else, in the order of the claims' names, the smallest free volume that fits.
//
// A volume stays with its claim also when the claim is gone: there are data on it, and
// the claim may come back. The binding is forgotten when both are gone; another claim gets
// the volume earlier by naming it. Bindings are written to disk, so that claims find the
// same data after a restart.
//
// bind returns the bindings, and for each claim without a volume the reason. It is pure.
func bind(
	had bindings, claims []*v1.PersistentVolumeClaim, volumes []*v1.PersistentVolume, onThisNode func(*v1.PersistentVolume) bool,
) (bindings, map[string]string) {
	b := binder{
		had: had, onThisNode: onThisNode, volumes: map[string]*v1.PersistentVolume{},
		got: bindings{}, holder: map[string]string{}, refused: map[string]string{},
	}
	b.bySize = slices.SortedFunc(slices.Values(volumes), func(x, y *v1.PersistentVolume) int {
		return cmp.Or(x.Spec.Capacity.Storage().Cmp(*y.Spec.Capacity.Storage()), cmp.Compare(x.Name, y.Name))
	})
	for _, v := range volumes {
		b.volumes[v.Name] = v
	}
	claims = slices.SortedFunc(slices.Values(claims), func(x, y *v1.PersistentVolumeClaim) int { return cmp.Compare(nameOf(x), nameOf(y)) })
	for _, step := range []func(*v1.PersistentVolumeClaim){b.bindNamedAgain, b.bindNamed, b.bindReserved, b.bindPrevious} {
		for _, c := range claims {
			if b.isOpen(c) {
				step(c)
			}
		}
	}
	b.keepForAbsent(claims)
	for _, c := range claims {
		if b.isOpen(c) {
			b.bindSmallest(c)
		}
	}
	return b.got, b.refused
}

type binder struct {
	had        bindings
	onThisNode func(*v1.PersistentVolume) bool
	volumes    map[string]*v1.PersistentVolume
	bySize     []*v1.PersistentVolume

	got     bindings
	holder  map[string]string // claim by volume: the inverse of got
	refused map[string]string // claims that get no volume, with the reason
}

// isOpen reports whether a claim was neither bound nor refused yet.
func (b *binder) isOpen(c *v1.PersistentVolumeClaim) bool {
	return b.got[nameOf(c)] == "" && b.refused[nameOf(c)] == ""
}

func (b *binder) assign(claim, volume string) {
	b.got[claim], b.holder[volume] = volume, claim
}

// bindNamedAgain binds a claim that names the volume it had. Such claims come before others
// that name the same volume.
func (b *binder) bindNamedAgain(c *v1.PersistentVolumeClaim) {
	if b.had[nameOf(c)] == c.Spec.VolumeName {
		b.bindNamed(c)
	}
}

// bindNamed binds a claim that names its volume.
func (b *binder) bindNamed(c *v1.PersistentVolumeClaim) {
	name := c.Spec.VolumeName
	if name == "" {
		return
	}
	v := b.volumes[name]
	if v == nil {
		b.refused[nameOf(c)] = fmt.Sprintf("there is no persistentvolume %q: put it into a manifest", name)
		return
	}
	if why := b.misfit(c, v); why != "" {
		b.refused[nameOf(c)] = fmt.Sprintf("persistentvolume %q can't be used: %s", name, why)
		return
	}
	b.assign(nameOf(c), name)
}

// bindReserved binds a claim to a volume whose claimRef names it.
func (b *binder) bindReserved(c *v1.PersistentVolumeClaim) {
	for _, v := range b.bySize {
		if v.Spec.ClaimRef != nil && b.misfit(c, v) == "" {
			b.assign(nameOf(c), v.Name)
			return
		}
	}
}

// bindPrevious binds a claim to the volume that it had, also if claim or volume were edited
// since so that they do not match any more: the data are there.
func (b *binder) bindPrevious(c *v1.PersistentVolumeClaim) {
	v := b.volumes[b.had[nameOf(c)]]
	if v != nil && b.holder[v.Name] == "" && isFor(v, c) {
		b.assign(nameOf(c), v.Name)
	}
}

// keepForAbsent keeps the binding of a volume and a claim while one of them is not there,
// or the claim asks for a volume that it can't get.
func (b *binder) keepForAbsent(claims []*v1.PersistentVolumeClaim) {
	there := map[string]bool{}
	for _, c := range claims {
		there[nameOf(c)] = true
	}
	for _, claim := range slices.Sorted(maps.Keys(b.had)) {
		volume := b.had[claim]
		isThere, isOpen := b.volumes[volume] != nil, there[claim] && b.refused[claim] == ""
		switch {
		case b.got[claim] != "" || b.holder[volume] != "": // one of them has moved on
		case !there[claim] && !isThere: // both are gone: the binding is forgotten
		case isOpen && isThere: // the volume names another claim now
		default:
			b.assign(claim, volume)
			if isOpen {
				b.refused[claim] = fmt.Sprintf("its persistentvolume %q is gone: put it back into a manifest, or name another one in spec.volumeName", volume)
			}
		}
	}
}

// bindSmallest binds a claim to the smallest volume that fits.
func (b *binder) bindSmallest(c *v1.PersistentVolumeClaim) {
	why := "there is no persistentvolume in the manifests"
	for _, v := range b.bySize {
		wrong := b.misfit(c, v)
		if wrong == "" {
			b.assign(nameOf(c), v.Name)
			return
		}
		why = fmt.Sprintf("no persistentvolume in the manifests can be used, as for %q: %s", v.Name, wrong)
	}
	b.refused[nameOf(c)] = why
}

// misfit returns why a volume can't be bound to a claim, or "" if it can.
func (b *binder) misfit(c *v1.PersistentVolumeClaim, v *v1.PersistentVolume) string {
	want, have := c.Spec.Resources.Requests.Storage(), v.Spec.Capacity.Storage()
	wantClass := ""
	if c.Spec.StorageClassName != nil {
		wantClass = *c.Spec.StorageClassName
	}
	selector, err := metav1.LabelSelectorAsSelector(c.Spec.Selector)
	switch {
	case b.holder[v.Name] != "":
		return "it is that of claim " + b.holder[v.Name]
	case !isFor(v, c):
		return fmt.Sprintf("its claimRef names claim %s/%s", v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name)
	case want.Cmp(*have) > 0:
		return fmt.Sprintf("it has %s, and %s are wanted", have, want)
	case wantClass != v.Spec.StorageClassName:
		return fmt.Sprintf("its storage class is %q, and %q is wanted", v.Spec.StorageClassName, wantClass)
	case modeOf(v.Spec.VolumeMode) != modeOf(c.Spec.VolumeMode):
		return fmt.Sprintf("its volumeMode is %s, and %s is wanted", modeOf(v.Spec.VolumeMode), modeOf(c.Spec.VolumeMode))
	case c.Spec.Selector != nil && (err != nil || !selector.Matches(labels.Set(v.Labels))):
		return "its labels do not match the selector of the claim"
	case !b.onThisNode(v):
		return "its nodeAffinity asks for another node"
	}
	for _, mode := range c.Spec.AccessModes {
		if !slices.Contains(v.Spec.AccessModes, mode) {
			return fmt.Sprintf("it does not have the access mode %s", mode)
		}
	}
	return ""
}

// isFor reports whether a volume has no claimRef, or one that names this claim.
func isFor(v *v1.PersistentVolume, c *v1.PersistentVolumeClaim) bool {
	to := v.Spec.ClaimRef
	return to == nil || to.Namespace == c.Namespace && to.Name == c.Name
}

func modeOf(mode *v1.PersistentVolumeMode) v1.PersistentVolumeMode {
	if mode == nil {
		return v1.PersistentVolumeFilesystem
	}
	return *mode
}
