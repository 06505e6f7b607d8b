package app

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"berth/internal/runtime/render"
)

// What berth takes over from the machine that it runs on.

// takeScore sets how soon the kernel ends this process when memory runs out. Who may
// not lower it has to live with what it has.
func takeScore(score int, log *slog.Logger) {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(score)), 0); err != nil {
		log.Info("when memory runs out, the kernel may end the agent as soon as others: it needs the right to lower its score (CAP_SYS_RESOURCE)", "score", score, "err", err)
	}
}

// machineDNS reads the resolver settings that pods take over.
func machineDNS(path string) (render.DNS, error) {
	if path == "" {
		return render.DNS{}, nil
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return render.DNS{}, nil
	}
	if err != nil {
		return render.DNS{}, fmt.Errorf("read the machine's resolver settings: %w", err)
	}
	defer file.Close()
	var dns render.DNS
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "nameserver":
			dns.Servers = append(dns.Servers, words[1:min(2, len(words))]...)
		case "search":
			dns.Searches = searches(words[1:]) // the last line counts
		case "options":
			for _, option := range words[1:] {
				dns.Options = render.SetOption(dns.Options, option)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return render.DNS{}, fmt.Errorf("read the machine's resolver settings: %w", err)
	}
	return dns, nil
}

// searches are domains without their last dot: with and without, it is the same one.
// The top is looked at anyway.
func searches(domains []string) []string {
	var out []string
	for _, d := range domains {
		if d = strings.TrimSuffix(d, "."); d != "" {
			out = append(out, d)
		}
	}
	return out
}

// throttlePaths are the files that tell how hot each processor is, and with it what
// others do on this machine.
func throttlePaths(machine fs.FS) []string {
	found, _ := fs.Glob(machine, "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle") // the pattern is a good one
	for i := range found {
		found[i] = "/" + found[i]
	}
	return found
}

// LibexecDir is where the programs of the bundled runtime are: beside berth.
func LibexecDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the programs of the bundled runtime: %w", err)
	}
	return filepath.Join(filepath.Dir(self), "libexec"), nil
}
