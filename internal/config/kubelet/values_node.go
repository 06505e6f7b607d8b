package kubelet

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// reservedMemory parses NODE:type=quantity,..., which may be repeated and joined by semicolons.
func reservedMemory(before any, text string) (any, error) {
	out, _ := before.([]kubeletconfig.MemoryReservation)
	if text == "" {
		return []kubeletconfig.MemoryReservation{}, nil
	}
	for word := range strings.SplitSeq(text, ";") {
		node, limits, found := strings.Cut(word, ":")
		number, err := strconv.ParseInt(strings.TrimSpace(node), 10, 32)
		if !found || err != nil {
			return nil, fmt.Errorf("%q is not of the form NODE:type=quantity,..., such as 0:memory=1Gi", word)
		}
		one := kubeletconfig.MemoryReservation{NumaNode: int32(number), Limits: v1.ResourceList{}}
		given, err := pairs("=", true)(nil, limits)
		if err != nil {
			return nil, err
		}
		words, _ := given.(map[string]string)
		for name, amount := range words {
			q, err := resource.ParseQuantity(amount)
			if err != nil {
				return nil, fmt.Errorf("%s=%s: %w", name, amount, err)
			}
			one.Limits[v1.ResourceName(name)] = q
		}
		out = append(out, one)
	}
	return out, nil
}

// patterns parses the verbosity of single files: pattern=N,...
func patterns(_ any, text string) (any, error) {
	out := []map[string]any{}
	for word := range strings.SplitSeq(text, ",") {
		if word == "" {
			continue
		}
		pattern, level, found := strings.Cut(word, "=")
		n, err := strconv.ParseUint(level, 10, 31)
		if !found || pattern == "" || err != nil {
			return nil, fmt.Errorf("%q is not of the form pattern=N", word)
		}
		out = append(out, map[string]any{"filePattern": pattern, "verbosity": n})
	}
	return out, nil
}
