// Package iptables keeps the chains of iptables that a kubelet makes for other programs: KUBE-IPTABLES-HINT, whose
// presence says which kind of iptables (legacy or nft) the machine uses, and KUBE-FIREWALL, which drops packets from outside
// to loopback addresses.
//
// The chains are named and filled as upstream's, so that kube-proxy, which makes the same, finds them complete. They are
// never removed: other programs may use them.
package iptables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"time"

	"berth/internal/lib/logonce"
	"berth/internal/lib/run"
)

const (
	hintChain     = "KUBE-IPTABLES-HINT"
	firewallChain = "KUBE-FIREWALL"

	// keepInterval is the time between two checks: another program may have flushed the tables.
	keepInterval = time.Minute
	// programTimeout bounds one call of a program, which waits for the lock of the tables.
	programTimeout = 10 * time.Second
)

// Chains keeps the chains.
type Chains struct {
	// Run runs a program (iptables or ip6tables) with arguments. Nil: it is run on this machine.
	Run func(ctx context.Context, program string, args ...string) error
	Log *slog.Logger
}

// Keep makes the chains, and makes them again when they are gone, until ctx ends. A machine without iptables needs none.
func (c Chains) Keep(ctx context.Context) {
	if c.Run == nil {
		c.Run = runProgram
	}
	var streak logonce.Streak
	for {
		err := c.ensure(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			streak.Recovered()
		case streak.FailedAs(err.Error(), time.Now()):
			c.Log.Info("chains of iptables for other programs are missing (makeIPTablesUtilChains)", "err", err)
		}
		if run.Sleep(ctx, keepInterval) != nil {
			return
		}
	}
}

// ensure makes what is missing. A program that is not there has no tables.
func (c Chains) ensure(ctx context.Context) error {
	var errs []error
	for _, family := range []struct {
		program string
		steps   []func(context.Context, string) error
	}{
		{"iptables", []func(context.Context, string) error{c.ensureHint, c.ensureFirewall}},
		{"ip6tables", []func(context.Context, string) error{c.ensureHint}},
	} {
		for _, step := range family.steps {
			if err := step(ctx, family.program); err != nil && !errors.Is(err, exec.ErrNotFound) {
				errs = append(errs, err)
				break
			}
		}
	}
	return errors.Join(errs...)
}

func (c Chains) ensureHint(ctx context.Context, program string) error {
	return c.ensureChain(ctx, program, "mangle", hintChain)
}

// ensureFirewall protects services on loopback addresses: kube-proxy may let the kernel route packets to them.
func (c Chains) ensureFirewall(ctx context.Context, program string) error {
	if err := c.ensureChain(ctx, program, "filter", firewallChain); err != nil {
		return err
	}
	for _, from := range []string{"OUTPUT", "INPUT"} {
		if err := c.ensureRule(ctx, program, "--insert", from, "--jump", firewallChain); err != nil {
			return err
		}
	}
	return c.ensureRule(ctx, program, "--append", firewallChain,
		"--match", "comment", "--comment", "block incoming localnet connections",
		"--destination", "127.0.0.0/8", "!", "--source", "127.0.0.0/8",
		"--match", "conntrack", "!", "--ctstate", "RELATED,ESTABLISHED,DNAT", "--jump", "DROP")
}

func (c Chains) ensureChain(ctx context.Context, program, table, chain string) error {
	if c.Run(ctx, program, "--table", table, "--list-rules", chain) == nil {
		return nil
	}
	return c.Run(ctx, program, "--table", table, "--new-chain", chain)
}

// ensureRule adds a rule to a chain of the table filter, if the chain does not have it.
func (c Chains) ensureRule(ctx context.Context, program, add, chain string, rule ...string) error {
	arguments := func(command string) []string { return append([]string{"--table", "filter", command, chain}, rule...) }
	if c.Run(ctx, program, arguments("--check")...) == nil {
		return nil
	}
	return c.Run(ctx, program, arguments(add)...)
}

func runProgram(ctx context.Context, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, append([]string{"--wait", "5"}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
