package printable

import "fmt"

// Bytes formats a size for people: 512, 1.5Ki, 23Mi.
func Bytes(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 40, "Ti"}, {1 << 30, "Gi"}, {1 << 20, "Mi"}, {1 << 10, "Ki"}} {
		if n < unit.size {
			continue
		}
		if n < 10*unit.size {
			return fmt.Sprintf("%.1f%s", float64(n)/float64(unit.size), unit.name)
		}
		return fmt.Sprintf("%d%s", n/unit.size, unit.name)
	}
	return fmt.Sprint(n)
}
