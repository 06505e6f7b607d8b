package kubelet

import (
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// parser parses the text of a flag into the JSON value of its field. before is the value of the same flag earlier
// on the command line, or nil: lists and maps grow.
type parser func(before any, text string) (any, error)

// parsers holds the parser of each type of flag.
var parsers = map[string]parser{
	"string":                             func(_ any, text string) (any, error) { return text, nil },
	"bool":                               func(_ any, text string) (any, error) { return strconv.ParseBool(text) },
	"int":                                integer(strconv.IntSize),
	"int32":                              integer(32),
	"int64":                              integer(64),
	"Level":                              integer(32),
	"duration":                           duration,
	"ip":                                 address,
	"quantity":                           quantity,
	"stringSlice":                        list,
	"mapStringString":                    pairs("=", true),
	"mapStringBool":                      switches,
	"colonSeparatedMultimapStringString": headers,
	"[]v1.Taint":                         taints,
	"reserved-memory":                    reservedMemory,
	"pattern=N,...":                      patterns,
	"version":                            version,
}

// parsersByFlag holds the parsers of flags whose text differs from that of other flags of their type.
var parsersByFlag = map[string]parser{
	"eviction-hard":              pairs("<", true),
	"eviction-soft":              pairs("<", true),
	"cpu-manager-policy-options": pairs("=", false),
}

// bare holds the values of flags that are given without one, by type.
var bare = map[string]string{"bool": "true", "version": "true"}

func integer(bits int) parser {
	return func(_ any, text string) (any, error) { return strconv.ParseInt(text, 0, bits) }
}

func duration(_ any, text string) (any, error) {
	d, err := time.ParseDuration(text)
	return d.String(), err
}

func address(_ any, text string) (any, error) {
	if _, err := netip.ParseAddr(text); err != nil && text != "" {
		return nil, fmt.Errorf("%q is not a valid IP address", text)
	}
	return text, nil
}

func quantity(_ any, text string) (any, error) {
	q, err := resource.ParseQuantity(text)
	return q.String(), err
}

func list(before any, text string) (any, error) {
	out, _ := before.([]string)
	if text == "" {
		return append([]string{}, out...), nil
	}
	words, err := csv.NewReader(strings.NewReader(text)).Read()
	return append(out, words...), err
}

// pairs parses key=value,..., where between is the text between key and value. Without split, commas belong
// to the value.
func pairs(between string, split bool) parser {
	return func(before any, text string) (any, error) {
		out := map[string]string{}
		old, _ := before.(map[string]string)
		maps.Copy(out, old)
		words := []string{text}
		if split {
			words = strings.Split(text, ",")
		}
		for _, word := range words {
			if word == "" {
				continue
			}
			key, value, found := strings.Cut(word, between)
			if !found {
				return nil, fmt.Errorf("malformed pair %q, expect name%svalue", word, between)
			}
			out[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
		return out, nil
	}
}

func switches(before any, text string) (any, error) {
	given, err := pairs("=", true)(nil, text)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	old, _ := before.(map[string]bool)
	maps.Copy(out, old)
	words, _ := given.(map[string]string)
	for name, word := range words {
		if out[name], err = strconv.ParseBool(word); err != nil {
			return nil, fmt.Errorf("invalid value of %s=%s, want true or false", name, word)
		}
	}
	return out, nil
}

// headers parses name:value,... Values may be secrets, so errors do not quote them.
func headers(before any, text string) (any, error) {
	out := map[string][]string{}
	old, _ := before.(map[string][]string)
	maps.Copy(out, old)
	for word := range strings.SplitSeq(text, ",") {
		if word == "" {
			continue
		}
		name, value, found := strings.Cut(word, ":")
		if !found {
			return nil, errors.New("malformed pair, expect name:value")
		}
		name = strings.TrimSpace(name)
		out[name] = append(out[name], strings.TrimSpace(value))
	}
	return out, nil
}

// taints parses key=value:effect,... The validation checks the taints.
func taints(before any, text string) (any, error) {
	out, _ := before.([]v1.Taint)
	if text == "" {
		return []v1.Taint{}, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		what, effect, found := strings.Cut(word, ":")
		key, value, _ := strings.Cut(what, "=")
		if !found || key == "" {
			return nil, fmt.Errorf("invalid taint spec: %q, want key=value:effect", word)
		}
		out = append(out, v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)})
	}
	return out, nil
}

// version parses the value of --version: false, true or raw.
func version(_ any, text string) (any, error) {
	if text == versionRaw {
		return versionRaw, nil
	}
	if strings.HasPrefix(text, "v") {
		return nil, errors.New("the reported version can't be chosen: want true, false or raw")
	}
	asked, err := strconv.ParseBool(text)
	return strconv.FormatBool(asked), err
}
