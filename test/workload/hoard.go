package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// threads holds on to threads that do nothing.
func threads(ctx context.Context, amount string) error {
	n, err := strconv.Atoi(amount)
	if err != nil {
		return err
	}
	var started, ended sync.WaitGroup
	started.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread()
			started.Done()
			<-ctx.Done()
		})
	}
	started.Wait()
	fmt.Println("there are", n, "threads more")
	ended.Wait()
	return nil
}

// hoard uses memory until so many MiB are left of the machine, and takes what others
// give back, too.
func hoard(ctx context.Context, left, most string) error {
	want, err := strconv.Atoi(left)
	if err != nil {
		return err
	}
	bound, err := strconv.Atoi(most)
	if err != nil {
		return err
	}
	const bite = 16
	var eaten [][]byte
	for ctx.Err() == nil {
		available, err := availableMemory()
		if err != nil {
			return err
		}
		if available > want && bite*len(eaten) < bound {
			eaten = append(eaten, memory(bite))
			continue
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	fmt.Println("ate", bite*len(eaten), "MiB")
	return nil
}

// memory is that many MiB, and the kernel has given them already.
func memory(mebibytes int) []byte {
	piece := make([]byte, mebibytes<<20)
	for i := range piece {
		piece[i] = 1
	}
	return piece
}

// availableMemory is how many MiB there are left of the machine.
func availableMemory() (int, error) {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) == 3 && words[0] == "MemAvailable:" {
			kibibytes, err := strconv.Atoi(words[1])
			return kibibytes >> 10, err
		}
	}
	return 0, errors.New("the kernel does not say how much memory is available")
}
