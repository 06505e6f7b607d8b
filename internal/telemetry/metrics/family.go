package metrics

import (
	"cmp"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// Pages with a few thousand lines on pods are made of what there is, each time anew.
// They are put together here rather than in a registry, which would check each line.

// family is a metric and its lines.
type family struct{ dto.MetricFamily }

func counter(name, help string) *family {
	return newFamily(dto.MetricType_COUNTER, name, help)
}

func gauge(name, help string) *family {
	return newFamily(dto.MetricType_GAUGE, name, help)
}

func newFamily(kind dto.MetricType, name, help string) *family {
	return &family{MetricFamily: dto.MetricFamily{Name: &name, Help: &help, Type: &kind}}
}

// label is a name and its value, shared by the lines of one thing.
type label = *dto.LabelPair

// labelled makes labels of names and values in turn, sorted by name as the formats
// want them.
func labelled(pairs ...string) []label {
	out := make([]label, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, &dto.LabelPair{Name: &pairs[i], Value: &pairs[i+1]})
	}
	slices.SortFunc(out, func(a, b label) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// with adds a label to others, which stay as they are.
func with(labels []label, name, value string) []label {
	out := append(slices.Clone(labels), &dto.LabelPair{Name: &name, Value: &value})
	slices.SortFunc(out, func(a, b label) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// add adds a line. A zero time: it has none.
func (f *family) add(labels []label, value float64, at time.Time) {
	m := &dto.Metric{Label: labels}
	if !at.IsZero() {
		m.TimestampMs = new(at.UnixMilli())
	}
	if f.GetType() == dto.MetricType_COUNTER {
		m.Counter = &dto.Counter{Value: &value}
	} else {
		m.Gauge = &dto.Gauge{Value: &value}
	}
	f.Metric = append(f.Metric, m)
}

// addIf adds a line for what was measured.
func (f *family) addIf(labels []label, value *uint64, at time.Time) {
	if value != nil {
		f.add(labels, float64(*value), at)
	}
}

// addOrZero adds a line for a limit, which is 0 if there is none.
func (f *family) addOrZero(labels []label, limit *uint64, at time.Time) {
	if limit == nil {
		limit = new(uint64(0))
	}
	f.add(labels, float64(*limit), at)
}

// addSeconds adds a line for a time in nanoseconds, if it was measured.
func (f *family) addSeconds(labels []label, nanoseconds *uint64, at time.Time) {
	if nanoseconds != nil {
		f.add(labels, float64(*nanoseconds)/float64(time.Second), at)
	}
}

// listed returns the families that have lines, by name.
func listed(families ...*family) []*dto.MetricFamily {
	var out []*dto.MetricFamily
	for _, f := range families {
		if len(f.Metric) > 0 {
			out = append(out, &f.MetricFamily)
		}
	}
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }
