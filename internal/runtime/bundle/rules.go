package bundle

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"berth/internal/host/roots"
)

// Names of the chains that the portmap plugin shares between all networks of a machine. The plugin
// never removes them.
const (
	hostPortEntry = "CNI-HOSTPORT-DNAT"
	hostPortMark  = "CNI-HOSTPORT-SETMARK"
	hostPortMasq  = "CNI-HOSTPORT-MASQ"
)

// removeRules removes the rules of a root's network that CNI plugins left in the nat tables.
func removeRules(ctx context.Context, owner roots.Owner) error {
	var errs []error
	for _, family := range []string{"iptables", "ip6tables"} {
		saved, err := exec.CommandContext(ctx, family+"-save", "-t", "nat").Output()
		if errors.Is(err, exec.ErrNotFound) {
			continue
		}
		if err != nil {
			// A kernel without this family has no rules of it either.
			if family == "iptables" {
				errs = append(errs, fmt.Errorf("list %s rules: %w", family, err))
			}
			continue
		}
		removal := staleRules(string(saved), owner.NetworkName())
		if len(removal) == 0 {
			continue
		}
		restore := exec.CommandContext(ctx, family+"-restore", "--noflush", "--wait", "10")
		restore.Stdin = strings.NewReader("*nat\n" + strings.Join(removal, "\n") + "\nCOMMIT\n")
		if out, err := restore.CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("remove %s rules: %w: %s", family, err, strings.TrimSpace(string(out))))
		}
	}
	return errors.Join(errs...)
}

// staleRules reads the saved rules of a nat table, and returns the commands that remove
// the rules of network, with the chains that they lead to. Rules of the plugins have the
// name of the network in a comment.
func staleRules(saved, network string) []string {
	var deletions []string
	var chains []string // to be removed: those of the network, and the shared ones if no other network uses them
	removeChain := func(chain string) {
		if !slices.Contains(chains, chain) {
			chains = append(chains, chain)
		}
	}
	var rest []rule
	for line := range strings.Lines(saved) {
		r, ok := parseRule(line)
		if !ok {
			continue
		}
		if !strings.Contains(r.text, `name: \"`+network+`\"`) {
			rest = append(rest, r)
			continue
		}
		if strings.HasPrefix(r.target, "CNI-") && !r.shared() {
			removeChain(r.target)
		}
		if strings.HasPrefix(r.chain, "CNI-") && r.chain != hostPortEntry {
			removeChain(r.chain) // which removes the rule, too
			continue
		}
		deletions = append(deletions, r.deletion())
	}
	rest = slices.DeleteFunc(rest, func(r rule) bool { return slices.Contains(chains, r.chain) })

	if hostPortsUnused(saved, rest) {
		for _, r := range rest {
			if r.shared() && !strings.HasPrefix(r.chain, "CNI-") {
				deletions = append(deletions, r.deletion())
			}
		}
		for _, chain := range []string{hostPortEntry, hostPortMark, hostPortMasq} {
			if hasChain(saved, chain) {
				removeChain(chain)
			}
		}
	}
	for _, chain := range chains {
		deletions = append(deletions, "-F "+chain)
	}
	for _, chain := range chains {
		deletions = append(deletions, "-X "+chain)
	}
	return deletions
}

// hostPortsUnused reports whether the shared chains have no rules but their own: no host port
// of another network goes through them.
func hostPortsUnused(saved string, rest []rule) bool {
	if !hasChain(saved, hostPortEntry) && !hasChain(saved, hostPortMark) && !hasChain(saved, hostPortMasq) {
		return false
	}
	for _, r := range rest {
		builtin := r.chain == "PREROUTING" || r.chain == "OUTPUT" || r.chain == "POSTROUTING"
		if r.chain == hostPortEntry || (r.shared() && !builtin) {
			return false
		}
	}
	return true
}

func hasChain(saved, chain string) bool { return strings.Contains(saved, "\n:"+chain+" ") }

// rule is one line of saved rules: -A chain conditions -j target.
type rule struct {
	chain, target string
	text          string // all after the chain
}

func parseRule(line string) (rule, bool) {
	text, ok := strings.CutPrefix(strings.TrimSpace(line), "-A ")
	if !ok {
		return rule{}, false
	}
	chain, conditions, _ := strings.Cut(text, " ")
	r := rule{chain: chain, text: conditions}
	// The target stands after the last -j; comments, which could hold one, come before.
	if i := strings.LastIndex(" "+conditions, " -j "); i >= 0 {
		r.target, _, _ = strings.Cut(conditions[i+len("-j "):], " ")
	}
	return r, true
}

// shared reports whether the rule leads to one of the chains that networks share.
func (r rule) shared() bool {
	return r.target == hostPortEntry || r.target == hostPortMark || r.target == hostPortMasq
}

func (r rule) deletion() string { return "-D " + r.chain + " " + r.text }
