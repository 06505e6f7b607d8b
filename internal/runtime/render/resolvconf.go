package render

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// ParseResolvConf parses the resolver settings of a machine, in the format of /etc/resolv.conf.
func ParseResolvConf(file io.Reader) (DNS, error) {
	var dns DNS
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
			dns.Searches = searchDomains(words[1:]) // the last line of a file counts
		case "options":
			for _, option := range words[1:] {
				dns.Options = setOption(dns.Options, option)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return DNS{}, fmt.Errorf("read the machine's resolver settings: %w", err)
	}
	return dns, nil
}

// searchDomains returns domains without their last dot, which makes no difference. The root domain is
// left out: it is searched anyway.
func searchDomains(domains []string) []string {
	var out []string
	for _, d := range domains {
		if d = strings.TrimSuffix(d, "."); d != "" {
			out = append(out, d)
		}
	}
	return out
}
