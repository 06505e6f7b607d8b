package metrics

import (
	"slices"
	"strconv"
)

const (
	mega = 1 << 20
	giga = 1 << 30
)

// sizeRange is the range that the size of an image is in, as the kubelet names it.
func sizeRange(bytes uint64) string {
	if bytes == 0 {
		return "N/A"
	}
	bounds := []uint64{
		10 * mega, 100 * mega, 500 * mega, giga, 5 * giga, 10 * giga, 20 * giga, 30 * giga, 40 * giga, 60 * giga, 100 * giga,
	}
	i := slices.IndexFunc(bounds, func(upper uint64) bool { return bytes <= upper })
	switch i {
	case 0:
		return "0-" + rounded(bounds[0])
	case -1:
		return "GT" + rounded(bounds[len(bounds)-1])
	default:
		return rounded(bounds[i-1]) + "-" + rounded(bounds[i])
	}
}

func rounded(bytes uint64) string {
	if bytes < giga {
		return strconv.FormatUint(bytes/mega, 10) + "MB"
	}
	return strconv.FormatUint(bytes/giga, 10) + "GB"
}
