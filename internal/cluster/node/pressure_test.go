package node

import (
	"testing"
	"time"
)

func TestPressureIsFeltBelowALimit(t *testing.T) {
	limits := Thresholds{
		Memory: Threshold{Amount: 100 << 20}, Disk: Threshold{Percent: 10}, Inodes: Threshold{Percent: 5},
		ImageDisk: Threshold{Percent: 15}, ImageInodes: Threshold{Percent: 2.5}, PIDs: Threshold{Amount: 100},
	}
	half := Amount{50, 100}
	plenty := Available{Memory: Amount{1 << 30, 2 << 30}, Disk: half, Inodes: half, ImageDisk: half, ImageInodes: Amount{500, 1000}, PIDs: Amount{1000, 4000}}
	for name, test := range map[string]struct {
		edit func(*Available)
		want Pressure
	}{
		"plenty":                       {func(*Available) {}, Pressure{}},
		"little memory":                {func(l *Available) { l.Memory.Left = 99 << 20 }, Pressure{Memory: true}},
		"just enough memory":           {func(l *Available) { l.Memory.Left = 100 << 20 }, Pressure{}},
		"little disk":                  {func(l *Available) { l.Disk.Left = 9 }, Pressure{Disk: true}},
		"few inodes":                   {func(l *Available) { l.Inodes.Left = 4 }, Pressure{Disk: true}},
		"little room for images":       {func(l *Available) { l.ImageDisk.Left = 14 }, Pressure{Disk: true}},
		"few inodes for images":        {func(l *Available) { l.ImageInodes.Left = 24 }, Pressure{Disk: true}},
		"just enough for images":       {func(l *Available) { l.ImageDisk.Left, l.ImageInodes.Left = 15, 25 }, Pressure{}},
		"a file system without inodes": {func(l *Available) { l.Inodes = Amount{} }, Pressure{}},
		"few processes":                {func(l *Available) { l.PIDs.Left = 99 }, Pressure{PIDs: true}},
		"nothing is known":             {func(l *Available) { *l = Available{} }, Pressure{}},
	} {
		left := plenty
		test.edit(&left)
		if got := limits.Pressure(left); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
	if got := (Thresholds{}).Pressure(Available{Memory: Amount{0, 1}, Disk: Amount{0, 1}, PIDs: Amount{0, 1}}); got != (Pressure{}) {
		t.Errorf("without limits, %+v is a pressure", got)
	}
}

func TestPressureIsShownForAWhileAfterItIsGone(t *testing.T) {
	r := Transition{After: 5 * time.Minute}
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		minute   int
		measured Pressure
		want     Pressure
	}{
		{0, Pressure{}, Pressure{}},
		{1, Pressure{Disk: true}, Pressure{Disk: true}},
		{5, Pressure{Memory: true}, Pressure{Memory: true, Disk: true}},
		{6, Pressure{}, Pressure{Memory: true}},
		{10, Pressure{}, Pressure{}},
	} {
		if got := r.Of(step.measured, begin.Add(time.Duration(step.minute)*time.Minute)); got != step.want {
			t.Errorf("minute %d: got %+v, want %+v", step.minute, got, step.want)
		}
	}
}

func TestWhatIsLeftOfThisMachine(t *testing.T) {
	left, err := Host{Storage: t.TempDir(), Images: "/proc"}.Available()
	if err != nil {
		t.Fatal(err)
	}
	if left.ImageDisk == left.Disk {
		t.Error("the file system of the images is not looked at")
	}
	for what, a := range map[string]Amount{"memory": left.Memory, "disk": left.Disk, "pids": left.PIDs} {
		if a.All <= 0 || a.Left <= 0 || a.Left > a.All {
			t.Errorf("%s: %+v", what, a)
		}
	}
	tight := files(t, map[string]string{"proc/meminfo": "", "proc/loadavg": "0 0 0 1/300 9", "proc/sys/kernel/pid_max": "5000\n", "proc/sys/kernel/threads-max": "1000\n"})
	if left, err = (Host{Root: tight, Storage: tight}).Available(); err != nil || left.PIDs != (Amount{700, 1000}) {
		t.Errorf("%+v, %v", left.PIDs, err)
	}
	if _, err := (Host{Root: t.TempDir(), Storage: "/nowhere"}).Available(); err == nil {
		t.Error("a machine that tells nothing should be an error")
	}
}
