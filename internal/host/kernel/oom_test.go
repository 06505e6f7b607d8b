package kernel

import (
	"errors"
	"io"
	"slices"
	"syscall"
	"testing"
)

// kmsg hands out one record with each read, as the kernel does.
type kmsg struct{ records []string }

func (k *kmsg) Read(p []byte) (int, error) {
	if len(k.records) == 0 {
		return 0, io.EOF
	}
	record := k.records[0]
	k.records = k.records[1:]
	if record == "lost" {
		return 0, syscall.EPIPE
	}
	return copy(p, record), nil
}

func TestVictimsAreReported(t *testing.T) {
	log := &kmsg{records: []string{
		"6,1,1,-;eth0: link up\n",
		"6,2,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/kubepods/a,task_memcg=/kubepods/a/b,task=app,pid=1,uid=0\n",
		"lost",
		"6,3,3,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/system.slice/db,task=postgres,pid=42,uid=70\n SUBSYSTEM=x\n",
		"6,4,4,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/,task_memcg=/,task=sh,pid=43,uid=0\n",
		"6,5,5,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/a,task_memcg=/a/b,task=x,pid=1,uid=7,pid=44,uid=0\n",
		"6,6,6,-;oom-kill:cut off\n",
	}}
	var got []Victim
	err := readVictims(log, func(v Victim) { got = append(got, v) })
	want := []Victim{
		{Name: "app", PID: 1, Cgroup: "/kubepods/a/b"},
		{Name: "postgres", PID: 42, Cgroup: "/system.slice/db", global: true},
		{Name: "sh", PID: 43, Cgroup: "/"},
		{Name: "x,pid=1,uid=7", PID: 44, Cgroup: "/a/b"},
		{},
	}
	if !errors.Is(err, io.EOF) || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for i, system := range []bool{false, true, true, false, false} {
		if got[i].System() != system {
			t.Errorf("%+v is of the machine: %t", got[i], !system)
		}
	}
}
