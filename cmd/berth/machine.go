package main

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"berth/internal/render"
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
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "nameserver":
			dns.Servers = append(dns.Servers, words[1])
		case "search":
			dns.Searches = words[1:] // the last one counts
		case "options":
			dns.Options = words[1:]
		}
	}
	if err := lines.Err(); err != nil {
		return render.DNS{}, fmt.Errorf("read the machine's resolver settings: %w", err)
	}
	return dns, nil
}

// libexecDir is where the programs of the bundled runtime are: beside berth.
func libexecDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the programs of the bundled runtime: %w", err)
	}
	return filepath.Join(filepath.Dir(self), "libexec"), nil
}
