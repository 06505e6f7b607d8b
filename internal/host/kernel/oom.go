package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Victim is a process that the kernel killed because memory was used up.
type Victim struct {
	Name   string
	PID    int
	Cgroup string // of the process, from the root of the memory controller
	global bool   // the memory of the machine was used up, and not that of a cgroup
}

// System reports whether the memory of the whole machine was used up. The kubelet looks at the cgroup of the process: one
// in the root cgroup has no limit, either.
func (v Victim) System() bool { return v.global || v.Cgroup == "/" }

// WatchOOM reads the messages of the kernel until ctx ends, and calls killed for each process that was killed because
// memory was used up. Messages from before are left out. The reader sleeps until there is a message.
func WatchOOM(ctx context.Context, killed func(Victim)) error {
	file, err := os.OpenFile("/dev/kmsg", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("watch for processes that are killed for memory: %w", err)
	}
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		return errors.Join(fmt.Errorf("watch for processes that are killed for memory: %w", err), file.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = file.Close() }) // which ends the read
	defer stop()
	err = readVictims(file, killed)
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(fmt.Errorf("watch for processes that are killed for memory: %w", err), file.Close())
}

// maxRecord is the size of the largest message that the kernel hands out.
const maxRecord = 8 << 10

// readVictims reads messages, one with each read, until that fails.
func readVictims(messages io.Reader, killed func(Victim)) error {
	record := make([]byte, maxRecord)
	for {
		n, err := messages.Read(record)
		switch {
		case errors.Is(err, syscall.EPIPE): // messages were overwritten before they were read
			continue
		case err != nil:
			return err
		}
		if v, ok := parseVictim(string(record[:n])); ok {
			killed(v)
		}
	}
}

// parseVictim reads a message such as
//
//	6,1234,5678,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/a,task=sh,pid=42,uid=0
//
// A process that was killed for the limit of a cgroup has oom_memcg in the place of global_oom. The name of the process may
// have commas in it: it is the text between task= and the last pid=.
func parseVictim(record string) (Victim, bool) {
	_, message, _ := strings.Cut(record, ";")
	message, _, _ = strings.Cut(message, "\n")
	fields, ok := strings.CutPrefix(message, "oom-kill:")
	if !ok {
		return Victim{}, false
	}
	facts, task, _ := strings.Cut(fields, ",task=")
	var v Victim
	if at := strings.LastIndex(task, ",pid="); at >= 0 {
		v.Name = task[:at]
		pid, _, _ := strings.Cut(task[at+len(",pid="):], ",")
		v.PID, _ = strconv.Atoi(pid) // 0: not known
	}
	for field := range strings.SplitSeq(facts, ",") {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "global_oom":
			v.global = true
		case "task_memcg":
			v.Cgroup = value
		}
	}
	return v, true
}
