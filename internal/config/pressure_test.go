package config

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// loadPressure loads a command line and a file.
func loadPressure(t *testing.T, file string, args ...string) (*Config, error) {
	t.Helper()
	var f Flags
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.AddTo(set)
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	return Load("/r", f, []byte(header+file+"\n"), machine)
}

func TestWhenTheMachineIsShortOfSomething(t *testing.T) {
	amount := func(n int64) Threshold { return Threshold{Amount: n} }
	percent := func(p float64) Threshold { return Threshold{Percent: p} }
	usual := Pressure{
		Memory: amount(100 << 20), Disk: percent(10), Inodes: percent(5), ImageDisk: percent(15), ImageInodes: percent(5), Relief: 5 * time.Minute,
	}
	merged := usual
	merged.Memory, merged.PIDs = amount(1<<30), amount(1000)
	short := usual
	short.Relief = time.Second
	for name, test := range map[string]struct {
		file  string
		flags []string
		want  Pressure
	}{
		"nothing said": {want: usual},
		"all of it": {
			file: "evictionHard: {memory.available: 1Gi, nodefs.available: 20%, nodefs.inodesFree: 7.5%, imagefs.available: 5G, imagefs.inodesFree: 1k, pid.available: 10%}\nevictionPressureTransitionPeriod: 1m",
			want: Pressure{
				Memory: amount(1 << 30), Disk: percent(20), Inodes: percent(7.5), ImageDisk: amount(5_000_000_000), ImageInodes: amount(1000), PIDs: percent(10), Relief: time.Minute,
			},
		},
		"what is given replaces the defaults":  {file: "evictionHard: {memory.available: 1Gi}", want: Pressure{Memory: amount(1 << 30), Relief: usual.Relief}},
		"or is merged with them":               {file: "evictionHard: {memory.available: 1Gi, pid.available: '1000'}\nmergeDefaultEvictionSettings: true", want: merged},
		"merged with nothing":                  {file: "mergeDefaultEvictionSettings: true", want: usual},
		"none at all":                          {file: "evictionHard: {}", want: Pressure{Relief: usual.Relief}},
		"none, in the kubelet's words":         {file: "evictionHard: {memory.available: 0%, nodefs.available: 100%}", want: Pressure{Relief: usual.Relief}},
		"a default that is not wanted":         {file: "evictionHard: {memory.available: 0%, pid.available: '1000'}\nmergeDefaultEvictionSettings: true", want: func() Pressure { p := merged; p.Memory = Threshold{}; return p }()},
		"a time of zero is the usual one":      {file: "evictionPressureTransitionPeriod: 0s", want: usual},
		"by flags":                             {flags: []string{"--eviction-hard=memory.available<1Gi, nodefs.available<20%", "--eviction-hard=pid.available<10"}, want: Pressure{Memory: amount(1 << 30), Disk: percent(20), PIDs: amount(10), Relief: usual.Relief}},
		"flags win":                            {file: "evictionHard: {nodefs.available: 1Gi}\nevictionPressureTransitionPeriod: 1m", flags: []string{"--eviction-hard=memory.available<1Gi", "--eviction-pressure-transition-period=2m"}, want: Pressure{Memory: amount(1 << 30), Relief: 2 * time.Minute}},
		"a flag that is empty wins":            {file: "evictionHard: {nodefs.available: 1Gi}", flags: []string{"--eviction-hard="}, want: Pressure{Relief: usual.Relief}},
		"a time alone leaves the limits alone": {flags: []string{"--eviction-pressure-transition-period=1s"}, want: short},
	} {
		c, err := loadPressure(t, test.file, test.flags...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.Pressure != test.want {
			t.Errorf("%s: got %+v, want %+v", name, c.Pressure, test.want)
		}
		if len(c.NotHonoured) > 0 {
			t.Errorf("%s: not honoured: %v", name, c.NotHonoured)
		}
	}
}

func TestThresholdsThatAreWrong(t *testing.T) {
	for file, want := range map[string]string{
		"evictionHard: {memory.avail: 1Gi}":       "not a signal: want one of memory.available, nodefs.available,",
		"evictionHard: {memory.available: lots}":  `"memory.available<lots": want an amount`,
		"evictionHard: {memory.available: '0'}":   "more than 0",
		"evictionHard: {memory.available: -1Gi}":  "more than 0",
		"evictionHard: {memory.available: ''}":    "want an amount",
		"evictionHard: {nodefs.available: 101%}":  "between 0% and 100%",
		"evictionHard: {nodefs.available: -1%}":   "between 0% and 100%",
		"evictionHard: {nodefs.available: some%}": "not a number of percent",
		"evictionHard: {nodefs.available: NaN%}":  "not a number of percent",
		"evictionPressureTransitionPeriod: 1ms":   "1s or more",
	} {
		if _, err := loadPressure(t, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", file, err, want)
		}
	}
	if _, err := loadPressure(t, "", "--eviction-hard=memory.available=1Gi"); err == nil || !strings.Contains(err.Error(), "signal<amount") {
		t.Errorf("got %v", err)
	}
}

func TestWhatToExpectOfThresholdsIsSaid(t *testing.T) {
	for file, want := range map[string][]string{
		"":                                   nil,
		"evictionHard: {}":                   nil,
		"evictionHard: {pid.available: 10%}": {"does not evict"},
		"evictionHard: {containerfs.available: 1Gi, memory.available: 1Gi}": {"containerfs.available has no effect", "does not evict"},
	} {
		c, err := loadPressure(t, file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if len(c.Warnings) != len(want) {
			t.Errorf("%s: %q", file, c.Warnings)
			continue
		}
		for i, w := range want {
			if !strings.Contains(c.Warnings[i], w) {
				t.Errorf("%s: %q does not say %q", file, c.Warnings[i], w)
			}
		}
	}
}
