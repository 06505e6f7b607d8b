package render

import (
	"fmt"
	"strings"
)

// ParseEnvFile parses a file of environment variables (fileKeyRef) as a shell would:
// NAME='value' on each line. A value may go over several lines, and no character in it is
// special. Blank lines and comments (# outside of quotes) are ignored.
func ParseEnvFile(text string) (map[string]string, error) {
	out := map[string]string{}
	line := 0
	for text != "" {
		var this string
		this, text, _ = strings.Cut(text, "\n")
		line++
		this = strings.TrimLeft(strings.TrimSuffix(this, "\r"), " \t")
		if this == "" || strings.HasPrefix(this, "#") {
			continue
		}
		name, rest, found := strings.Cut(this, "=")
		switch {
		case !found:
			return nil, fmt.Errorf("line %d has no =", line)
		case name == "":
			return nil, fmt.Errorf("line %d has no name before the =", line)
		case strings.ContainsAny(name, " \t"):
			return nil, fmt.Errorf("line %d has a space before the =", line)
		case strings.HasPrefix(rest, " "), strings.HasPrefix(rest, "\t"):
			setFirst(out, name, "") // to a shell, nothing is assigned
			continue
		case !strings.HasPrefix(rest, "'"):
			return nil, fmt.Errorf("line %d: the value of %s must be in single quotes", line, name)
		}
		began, value := line, ""
		for rest = rest[1:]; ; {
			inside, after, closed := strings.Cut(rest, "'")
			value += inside
			if closed {
				if after = strings.TrimLeft(after, " \t"); after != "" && after[0] != '#' {
					return nil, fmt.Errorf("line %d has more after the closing quote", line)
				}
				break
			}
			if text == "" {
				return nil, fmt.Errorf("line %d: the quote is never closed", began)
			}
			value += "\n"
			rest, text, _ = strings.Cut(text, "\n")
			line++
		}
		setFirst(out, name, value)
	}
	return out, nil
}

// setFirst sets a variable unless an earlier line has set it.
func setFirst(out map[string]string, name, value string) {
	if _, known := out[name]; !known {
		out[name] = value
	}
}
