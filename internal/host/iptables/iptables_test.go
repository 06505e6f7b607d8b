package iptables

import (
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// tables are the tables of a machine: the chains and rules that were made.
type tables struct {
	mu    sync.Mutex
	made  []string
	calls int
	err   error // all calls fail
}

func (m *tables) run(_ context.Context, program string, args ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if m.err != nil {
		return m.err
	}
	// "--table filter --check INPUT ..." asks for what "--table filter --insert INPUT ..." makes.
	what := program + " " + args[1] + " " + strings.Join(args[3:], " ")
	switch args[2] {
	case "--list-rules", "--check":
		if !slices.Contains(m.made, what) {
			return errors.New("no such chain or rule")
		}
	default:
		m.made = append(m.made, what)
	}
	return nil
}

func (m *tables) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.made)
}

func (m *tables) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made = nil
}

func TestChainsAreMadeOnceAndMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &tables{}
		ctx, cancel := context.WithCancel(t.Context())
		go Chains{Run: m.run, Log: slog.New(slog.DiscardHandler)}.Keep(ctx)
		synctest.Wait()
		want := []string{
			"ip6tables mangle KUBE-IPTABLES-HINT",
			"iptables filter INPUT --jump KUBE-FIREWALL",
			"iptables filter KUBE-FIREWALL",
			"iptables filter KUBE-FIREWALL --match comment --comment block incoming localnet connections --destination 127.0.0.0/8 ! --source 127.0.0.0/8 " +
				"--match conntrack ! --ctstate RELATED,ESTABLISHED,DNAT --jump DROP",
			"iptables filter OUTPUT --jump KUBE-FIREWALL",
			"iptables mangle KUBE-IPTABLES-HINT",
		}
		if got := slices.Sorted(slices.Values(m.all())); !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}

		time.Sleep(keepInterval)
		synctest.Wait()
		if got := m.all(); len(got) != len(want) {
			t.Errorf("the second time, %q was made", got[len(want):])
		}

		m.flush() // by another program
		time.Sleep(keepInterval)
		synctest.Wait()
		if got := m.all(); len(got) != len(want) {
			t.Errorf("got %q again", got)
		}
		cancel()
	})
}

func TestFailuresAreLoggedOnce(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		lines int
	}{"no iptables": {exec.ErrNotFound, 0}, "no right": {errors.New("permission denied"), 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &tables{err: test.err}
				var log strings.Builder
				ctx, cancel := context.WithCancel(t.Context())
				go Chains{Run: m.run, Log: slog.New(slog.NewTextHandler(&log, nil))}.Keep(ctx)
				time.Sleep(5 * keepInterval)
				cancel()
				synctest.Wait()
				if got := strings.Count(log.String(), "\n"); got != test.lines || m.calls < 10 {
					t.Errorf("%d lines after %d calls: %s", got, m.calls, log.String())
				}
			})
		})
	}
}
