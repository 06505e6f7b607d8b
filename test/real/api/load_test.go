//go:build real

package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/api"
	"berth/internal/api/client"
	"berth/test/real/kit"
)

// followers is how many clients read one log at the same time.
const followers = 200

// cost holds the CPU time, the memory and the goroutines of the agent at one moment.
type cost struct {
	memory     int // MiB that are resident
	goroutines int
	cpu        time.Duration // since it was started
	at         time.Time
}

func (c cost) String() string { return fmt.Sprintf("%d MiB, %d goroutines", c.memory, c.goroutines) }

// since returns the share of a processor that was used between two moments.
func (c cost) since(before cost) string {
	return fmt.Sprintf("%.1f%% of a processor", 100*float64(c.cpu-before.cpu)/float64(c.at.Sub(before.at)))
}

// measureCost measures the agent, after a garbage collection.
func measureCost(n *kit.Node) cost {
	n.T.Helper()
	if _, err := n.AgentPage("/debug/pprof/heap?gc=1"); err != nil {
		n.T.Fatal(err)
	}
	c := cost{at: time.Now()}
	_, memory, _ := strings.Cut(n.AgentProc("status"), "\nVmRSS:")
	c.memory = n.Atoi(strings.Fields(memory)[0]) >> 10
	// After the name of the program, which may hold anything, come those of proc(5)
	// from the third on.
	stat := n.AgentProc("stat")
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const tick = 10 * time.Millisecond
	c.cpu = time.Duration(n.Atoi(fields[11])+n.Atoi(fields[12])) * tick
	text, err := n.AgentPage("/debug/pprof/goroutine?debug=1")
	if err == nil {
		_, err = fmt.Sscanf(string(text), "goroutine profile: total %d", &c.goroutines)
	}
	if err != nil {
		n.T.Fatal(err)
	}
	return c
}

// follower reads a log to its end.
type follower struct {
	text kit.Buffer
	err  error
}

// follow has as many read the log of a pod as there are to be: one half as 'berth logs
// -f' does, and the other as the API server does. It returns them, and what waits
// until all are through.
func follow(n *kit.Node, p v1.Pod) ([]*follower, func(time.Duration) error) {
	n.T.Helper()
	local, err := client.New(n.Root)
	if err != nil {
		n.T.Fatal(err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", api.SocketPath(n.Root))
	}
	plain := &http.Client{Transport: &http.Transport{DialContext: dial}}
	ways := []func(io.Writer) error{
		func(w io.Writer) error {
			log, err := local.Log(n.T.Context(), client.LogRequest{Namespace: p.Namespace, Pod: p.Name, Follow: true, Tail: -1})
			if err != nil {
				return err
			}
			return errors.Join(log.CopyTo(w), log.Close())
		},
		func(w io.Writer) error {
			request, err := http.NewRequestWithContext(n.T.Context(), http.MethodGet, fmt.Sprintf("http://berth/containerLogs/%s/%s/app?follow=true", p.Namespace, p.Name), nil)
			if err != nil {
				return err
			}
			answer, err := plain.Do(request)
			if err != nil {
				return err
			}
			_, err = io.Copy(w, answer.Body)
			return errors.Join(err, answer.Body.Close())
		},
	}
	var group sync.WaitGroup
	all := make([]*follower, followers)
	for i := range all {
		f := &follower{}
		all[i] = f
		group.Go(func() { f.err = ways[i%len(ways)](&f.text) })
	}
	through := make(chan struct{})
	go func() {
		group.Wait()
		close(through)
		local.Close()
		plain.CloseIdleConnections()
	}()
	return all, func(limit time.Duration) error {
		select {
		case <-through:
			return nil
		case <-time.After(limit):
			return errors.New("some go on")
		}
	}
}

// slowest is how many lines the last of them has read.
func slowest(all []*follower) int {
	var counts []int
	for _, f := range all {
		counts = append(counts, strings.Count(f.text.String(), "\n"))
	}
	return slices.Min(counts)
}

// This test has the machine for itself, since it measures: it is not parallel.
func TestManyFollowOneLog(t *testing.T) {
	// given a container that writes a hundred lines a second
	n := kit.NewNode(t)
	p := kit.NewPod("writes", "count", "10ms")
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	n.Apply("writes.yaml", p)
	n.Start()
	running := n.WaitRunning("writes")["writes"]
	idle := measureCost(n)

	// when many follow its log for some hundred lines
	all, wait := follow(n, running)
	const seen = 500
	n.Wait("all to have read the lines", kit.StartTimeout, func() string {
		if got := slowest(all); got < seen {
			return fmt.Sprintf("the slowest has %d", got)
		}
		return ""
	})
	begin := measureCost(n)
	n.Wait("as many again", kit.StartTimeout, func() string { return kit.MissingUnless(slowest(all) >= 2*seen) })
	busy := measureCost(n)
	t.Logf("before: %s; with %d followers: %s, %s; each takes %d KiB", idle, followers, busy, busy.since(begin), (busy.memory-idle.memory)<<10/followers)
	if grown := busy.memory - idle.memory; grown > 60 {
		t.Errorf("that is %d MiB more", grown)
	}

	// and it ends
	_, err := kit.CallRuntime(n, func(ctx context.Context, c cri.RuntimeServiceClient) (*cri.StopContainerResponse, error) {
		return c.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: kit.ContainerIDs(running)["app"], Timeout: 5})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := wait(kit.StartTimeout); err != nil {
		t.Fatal(err)
	}

	// then each has every line
	want := n.MustBerth("logs", "writes")
	for i, f := range all {
		if got := f.text.String(); f.err != nil || got != want {
			t.Errorf("follower %d: %v, %d lines of %d, the last is %.40q", i, f.err, strings.Count(got, "\n"), strings.Count(want, "\n"), got[max(0, len(got)-40):])
		}
	}
	for i, line := range kit.Lines(want) {
		if line != fmt.Sprint("count ", i+1) {
			t.Fatalf("line %d is %q", i+1, line)
		}
	}

	// and nothing of them is left
	var after cost
	n.Wait("the agent to be as before", kit.StartTimeout, func() string {
		after = measureCost(n)
		if after.goroutines > idle.goroutines+5 || after.memory > idle.memory+20 {
			return fmt.Sprintf("it has %s, and had %s", after, idle)
		}
		return ""
	})
	t.Logf("after: %s, %s", after, after.since(busy))
}

// This test has the machine for itself, since it measures: it is not parallel.
func TestTheEndOfALargeLogIsThereAtOnce(t *testing.T) {
	// given two containers, of which one has written a gibibyte
	n := kit.NewNode(t)
	n.Apply("pods.yaml", kit.NewPod("small", "log", "100"), kit.NewPod("large", "log", "100"))
	n.Start()
	n.WaitRunning("small", "large")
	n.Wait("the lines", kit.StartTimeout, func() string {
		return kit.MissingUnless(strings.HasSuffix(n.MustBerth("logs", "large"), "line 100\n") && strings.HasSuffix(n.MustBerth("logs", "small"), "line 100\n"))
	})
	path := logPath(n, "large")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	enlarge(t, path, before)

	// when a client reads its last lines, then that takes as long as with the small one
	ask := func(name string) time.Duration {
		var took []time.Duration
		for range 5 {
			began := time.Now()
			if got := kit.Lines(n.MustBerth("logs", name, "--tail", "10")); len(got) != 10 || got[0] != "line 91" || got[9] != "line 100" {
				t.Errorf("%s: got %q", name, got)
			}
			took = append(took, time.Since(began))
		}
		return slices.Sorted(slices.Values(took))[len(took)/2]
	}
	small, large := ask("small"), ask("large")
	t.Logf("the last lines of %d bytes take %s, and of a gibibyte %s", len(before), small, large)
	if large > small+kit.LoadAllowance {
		t.Error("that is too long")
	}
}

// logPath is the file that the one container of a pod logs to.
func logPath(n *kit.Node, name string) string {
	n.T.Helper()
	status, _ := n.Container(kit.ContainerIDs(n.Pod(name))["app"])
	return status.LogPath
}

// enlarge writes a gibibyte of lines before those that a log has.
func enlarge(t *testing.T, path string, end []byte) {
	t.Helper()
	line := []byte("2026-01-02T03:04:05.000000000Z stdout F " + strings.Repeat("x", 100) + "\n")
	block := bytes.Repeat(line, 1<<20/len(line))
	part := filepath.Join(filepath.Dir(path), "large.part")
	file, err := os.Create(part)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for written := 0; written < 1<<30; written += len(block) {
		if _, err := file.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := file.Write(end); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(part, path); err != nil {
		t.Fatal(err)
	}
}
