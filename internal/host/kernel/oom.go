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

// Victim is a process that the kernel killed because the memory of the whole machine was used up.
type Victim struct {
	Name string
	PID  int
}

// WatchSystemOOM reads the messages of the kernel until ctx ends, and calls killed for each process that was killed because
// the machine, rather than a cgroup, had no memory left. Messages from before are left out. The reader sleeps until there is a message.
func WatchSystemOOM(ctx context.Context, killed func(Victim)) error {
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
// A process that was killed for the limit of a cgroup has oom_memcg in the place of global_oom. The kubelet looks at the
// cgroup of the process: one in the root cgroup has no limit, either.
func parseVictim(record string) (Victim, bool) {
	_, message, _ := strings.Cut(record, ";")
	message, _, _ = strings.Cut(message, "\n")
	fields, ok := strings.CutPrefix(message, "oom-kill:")
	if !ok {
		return Victim{}, false
	}
	var v Victim
	system := false
	for field := range strings.SplitSeq(fields, ",") {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "global_oom":
			system = true
		case "task_memcg":
			system = system || value == "/"
		case "task":
			v.Name = value
		case "pid":
			v.PID, _ = strconv.Atoi(value) // 0: not known
		}
	}
	return v, system
}
