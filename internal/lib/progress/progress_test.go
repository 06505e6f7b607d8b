package progress

import (
	"testing"
	"time"
)

const second = time.Second

func TestAMeter(t *testing.T) {
	type note struct {
		after       time.Duration // the note before
		done, total int64
	}
	for name, c := range map[string]struct {
		notes []note
		after time.Duration // the last note
		want  Progress
	}{
		"nothing was read": {nil, 3 * second, Progress{}},
		"nothing ever came": {
			nil, 20 * second, Progress{Silent: 20 * second},
		},
		"one reading has no rate": {
			[]note{{0, 10, 100}}, 0, Progress{Done: 10, Total: 100},
		},
		"what was here before does not count": {
			[]note{{0, 40, 100}, {2 * second, 60, 100}}, 0, Progress{Done: 60, Total: 100, Rate: 10, Remaining: 4 * second},
		},
		"too soon": {
			[]note{{0, 0, 100}, {500 * time.Millisecond, 60, 100}}, 0, Progress{Done: 60, Total: 100},
		},
		"a total that is not known": {
			[]note{{0, 0, 0}, {2 * second, 20, 0}}, 0, Progress{Done: 20, Rate: 10},
		},
		"all is here": {
			[]note{{0, 0, 20}, {2 * second, 20, 20}}, 0, Progress{Done: 20, Total: 20, Rate: 10},
		},
		"it becomes slower while nothing comes": {
			[]note{{0, 0, 100}, {2 * second, 20, 100}}, 2 * second, Progress{Done: 20, Total: 100, Rate: 5, Remaining: 16 * second},
		},
		"nothing comes any more": {
			[]note{{0, 0, 100}, {2 * second, 20, 100}, {15 * second, 20, 100}},
			second,
			Progress{Done: 20, Total: 100, Silent: 16 * second},
		},
		"it comes again": {
			[]note{{0, 0, 100}, {2 * second, 20, 100}, {20 * second, 20, 100}, {8 * second, 50, 100}},
			0,
			Progress{Done: 50, Total: 100, Rate: 1, Remaining: 50 * second},
		},
		"the past is forgotten": {
			[]note{{0, 0, 1000}, {second, 500, 1000}, {29 * second, 520, 1000}, {2 * second, 580, 1000}},
			0,
			Progress{Done: 580, Total: 1000, Rate: 30, Remaining: 14 * second},
		},
		"it begins anew": {
			[]note{{0, 0, 100}, {10 * second, 90, 100}, {second, 10, 100}, {2 * second, 30, 100}},
			0,
			Progress{Done: 30, Total: 100, Rate: 10, Remaining: 7 * second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			m := NewMeter(now)
			for _, n := range c.notes {
				now = now.Add(n.after)
				m.Add(n.done, n.total, now)
			}
			if got := m.Progress(now.Add(c.after)); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestAMeterRemembersLittle(t *testing.T) {
	now := time.Unix(1000, 0)
	m := NewMeter(now)
	for i := range int64(100_000) {
		now = now.Add(time.Millisecond)
		m.Add(i, 1<<40, now)
	}
	if len(m.readings) > 70 {
		t.Errorf("%d readings", len(m.readings))
	}
	if p := m.Progress(now); p.Rate < 990 || p.Rate > 1010 {
		t.Errorf("%d bytes per second", p.Rate)
	}
}

func TestWhatIsKnown(t *testing.T) {
	for _, c := range []struct {
		p    Progress
		want bool
	}{
		{Progress{}, false}, {Progress{Rate: 1}, false}, {Progress{Done: 1}, true}, {Progress{Total: 1}, true}, {Progress{Silent: 1}, true},
	} {
		if c.p.Known() != c.want {
			t.Errorf("%+v: got %v", c.p, !c.want)
		}
	}
}

func TestProgressInWords(t *testing.T) {
	for want, p := range map[string]Progress{
		"":                                      {},
		"0 of 4.0Ki":                            {Total: 4 << 10},
		"2.0Ki, 1.0Ki/s":                        {Done: 2 << 10, Rate: 1 << 10},
		"2.0Mi of 4.0Gi, 1.0Mi/s, 1h8m13s left": {Done: 2 << 20, Total: 4 << 30, Rate: 1 << 20, Remaining: 4093 * time.Second},
		"2.0Ki of 4.0Ki, nothing came for 17s":  {Done: 2 << 10, Total: 4 << 10, Silent: 17*time.Second + time.Millisecond},
		"nothing came for 1m0s":                 {Silent: time.Minute},
	} {
		if got := p.String(); got != want {
			t.Errorf("%+v: got %q, want %q", p, got, want)
		}
	}
}
