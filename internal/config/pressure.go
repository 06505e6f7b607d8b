package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// Pressure says when the machine is short of something: with less left than one of
// these, the kubelet's evictionHard. The Node then shows it, and most new pods are
// refused. What pods may have of memory and disk is less by it. Pods that run are not
// evicted yet.
type Pressure struct {
	Memory                 Threshold
	Disk, Inodes           Threshold // of the file system of the root directory
	ImageDisk, ImageInodes Threshold // of the file system of the images
	PIDs                   Threshold
	// Relief is how long there must have been enough again before it is shown.
	Relief time.Duration
}

// Threshold is an amount, or a part of all in percent. With neither there is none.
type Threshold struct {
	Amount  int64
	Percent float64
}

const defaultRelief = 5 * time.Minute

// signal is something that can run out, as the kubelet calls it.
type signal struct {
	name   string
	normal string // the kubelet's default; empty: none
	of     func(*Pressure) *Threshold
}

var signals = []signal{
	{"memory.available", "100Mi", func(p *Pressure) *Threshold { return &p.Memory }},
	{"nodefs.available", "10%", func(p *Pressure) *Threshold { return &p.Disk }},
	{"nodefs.inodesFree", "5%", func(p *Pressure) *Threshold { return &p.Inodes }},
	{"imagefs.available", "15%", func(p *Pressure) *Threshold { return &p.ImageDisk }},
	{"imagefs.inodesFree", "5%", func(p *Pressure) *Threshold { return &p.ImageInodes }},
	{"pid.available", "", func(p *Pressure) *Threshold { return &p.PIDs }},
}

// unheeded are signals that a kubelet accepts, and sets by itself.
var unheeded = []string{"containerfs.available", "containerfs.inodesFree", "allocatableMemory.available"}

func (f *Flags) addPressure(set *pflag.FlagSet) {
	set.Func("eviction-hard", "how much has to be left of this machine, as signal<amount or percent,...: below, the node shows the pressure and refuses most new pods; "+
		"what runs is not evicted yet (default \"memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%\")",
		func(text string) error {
			if f.EvictionHard == nil {
				f.EvictionHard = map[string]string{} // given as empty, it means no thresholds
			}
			for pair := range strings.SplitSeq(text, ",") {
				name, amount, found := strings.Cut(pair, "<")
				if !found && pair != "" {
					return fmt.Errorf("%q is not of the form signal<amount", pair)
				}
				if found {
					f.EvictionHard[strings.TrimSpace(name)] = strings.TrimSpace(amount)
				}
			}
			return nil
		})
	set.DurationVar(&f.EvictionRelief, "eviction-pressure-transition-period", 0, "how long there must be enough again before the node no longer shows a pressure (default 5m)")
}

const hardSetting = "--eviction-hard (evictionHard)"

// pressure reads the thresholds. Configured thresholds replace all of the defaults,
// unless they are to be merged.
func (l *loader) pressure(f Flags, k *kubeletconfig.KubeletConfiguration) Pressure {
	given := k.EvictionHard
	if f.EvictionHard != nil {
		given = f.EvictionHard
	}
	merge := k.MergeDefaultEvictionSettings != nil && *k.MergeDefaultEvictionSettings
	p := Pressure{Relief: l.duration("--eviction-pressure-transition-period (evictionPressureTransitionPeriod)",
		metav1.Duration{Duration: first(f.EvictionRelief, k.EvictionPressureTransitionPeriod.Duration)}, defaultRelief)}
	for _, s := range signals {
		text, isGiven := given[s.name]
		if !isGiven && (given == nil || merge) {
			text = s.normal
		}
		if text == "" && !isGiven {
			continue
		}
		var err error
		if *s.of(&p), err = threshold(text); err != nil {
			l.fail(hardSetting, s.name+"<"+text, "%s", err)
		}
	}
	l.signals(given)
	return p
}

// signals refuses unknown eviction signals, and warns of signals without effect.
func (l *loader) signals(given map[string]string) {
	var known []string
	for _, s := range signals {
		known = append(known, s.name)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case slices.Contains(known, name):
		case slices.Contains(unheeded, name):
			l.warnings = append(l.warnings, fmt.Sprintf("%s: %s has no effect", hardSetting, name))
		default:
			l.fail(hardSetting, name, "not a signal: want one of %s", strings.Join(known, ", "))
		}
	}
	if len(given) > 0 {
		l.warnings = append(l.warnings, hardSetting+": a node in a cluster shows the pressure and refuses most new pods, but berth does not evict pods that run yet")
	}
}

// threshold reads an amount such as 1Gi, or a part such as 10%. Nothing and all, in
// percent, are the kubelet's words for none.
func threshold(text string) (Threshold, error) {
	if part, isPart := strings.CutSuffix(text, "%"); isPart {
		percent, err := strconv.ParseFloat(part, 64)
		switch {
		case err != nil || math.IsNaN(percent):
			return Threshold{}, errors.New("not a number of percent")
		case percent < 0 || percent > 100:
			return Threshold{}, errors.New("must be between 0% and 100%")
		case percent == 100:
			return Threshold{}, nil
		}
		return Threshold{Percent: percent}, nil
	}
	q, err := resource.ParseQuantity(text)
	switch {
	case err != nil:
		return Threshold{}, errors.New("want an amount such as 500Mi, or a part such as 10%")
	case q.Sign() <= 0:
		return Threshold{}, errors.New("must be more than 0: the word for no threshold is 0%")
	}
	return Threshold{Amount: q.Value()}, nil
}

// writeTo names all signals, so that what has no threshold does not get the default.
func (p Pressure) writeTo(k *kubeletconfig.KubeletConfiguration) {
	k.EvictionPressureTransitionPeriod.Duration = p.Relief
	k.EvictionHard = map[string]string{}
	for _, s := range signals {
		t := s.of(&p)
		k.EvictionHard[s.name] = strconv.FormatFloat(t.Percent, 'f', -1, 64) + "%"
		if t.Amount > 0 {
			k.EvictionHard[s.name] = resource.NewQuantity(t.Amount, resource.BinarySI).String()
		}
	}
}
