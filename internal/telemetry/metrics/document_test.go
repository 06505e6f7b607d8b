package metrics

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"berth/internal/lib/doctest"
)

// upstreamFamily is a metric family of the kubelet.
type upstreamFamily struct {
	name    string
	missing bool
	reason  string // why it has no meaning for berth, or what it comes with
}

// upstreamPage has the families of one page of the kubelet.
type upstreamPage struct {
	path     string
	families []upstreamFamily
}

// readUpstream reads testdata/upstream.txt.
func readUpstream(t *testing.T) []upstreamPage {
	t.Helper()
	text, err := os.ReadFile("testdata/upstream.txt")
	if err != nil {
		t.Fatal(err)
	}
	var pages []upstreamPage
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		name, rest, _ := strings.Cut(line, " ")
		reason, pointless := strings.CutPrefix(rest, "because ")
		capability, missing := strings.CutPrefix(rest+" ", "missing ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case name == "page":
			pages = append(pages, upstreamPage{path: rest})
		case len(pages) == 0 || rest != "" && !missing && !pointless:
			t.Fatalf("upstream.txt: %q is no family of a page", line)
		default:
			last := &pages[len(pages)-1]
			family := upstreamFamily{name: name, missing: missing}
			switch {
			case missing:
				family.reason = strings.TrimSpace(capability)
			case pointless:
				family.reason = reason
			}
			last.families = append(last.families, family)
		}
	}
	return pages
}

// readExposed returns the families that berth has on a page, with their types and labels: lines such as
// "gauge berth_start_slots {state}", which another test compares with the page.
func readExposed(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + path[strings.LastIndex(path, "/")+1:] + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		out[words[1]] = words[0] + " " + strings.Join(words[2:], " ")
	}
	return out
}

func TestTheListOfUpstreamMetricsIsTrue(t *testing.T) {
	for _, page := range readUpstream(t) {
		exposed := readExposed(t, page.path)
		for _, f := range page.families {
			_, have := exposed[f.name]
			if claimed := !f.missing && f.reason == ""; claimed != have {
				t.Errorf("%s: upstream.txt says that berth has %s: %t, and it does: %t", page.path, f.name, claimed, have)
			}
		}
	}
}

func TestTheDocumentIsMadeFromTheList(t *testing.T) {
	want := document(t)
	doctest.Check(t, "metrics.md", want)
}

const introduction = `# Metrics

<!-- Made from internal/telemetry/metrics/testdata by 'make docs'. -->

Names, types and labels are those of kubelet 1.36.3, and of its cAdvisor. Names that begin with berth_ are berth's own. These tables have every
family of the kubelet with its state:

- the type and the labels: berth has it
- no meaning: berth has nothing that it could count, for the reason given
- missing: berth lacks what it counts, and will have it

Families that begin with go_ and process_ are those of the Prometheus client library, and are on /metrics of both.
`

// document returns docs/metrics.md.
func document(t *testing.T) string {
	var summary, tables strings.Builder
	summary.WriteString("\n| page | families of the kubelet | berth has | no meaning | missing |\n|---|---|---|---|---|\n")
	for _, page := range readUpstream(t) {
		exposed := readExposed(t, page.path)
		var have, pointless, missing int
		fmt.Fprintf(&tables, "\n## %s\n\n| family | state |\n|---|---|\n", page.path)
		for _, f := range page.families {
			var state string
			switch {
			case f.missing:
				missing++
				state = strings.TrimSuffix("missing: "+f.reason, ": ")
			case f.reason != "":
				pointless++
				state = "no meaning: " + f.reason
			default:
				have++
				state = exposed[f.name]
				delete(exposed, f.name)
			}
			fmt.Fprintf(&tables, "| `%s` | %s |\n", f.name, state)
		}
		var own []string
		for name, state := range exposed {
			own = append(own, fmt.Sprintf("| `%s` | %s, berth's own |\n", name, state))
		}
		slices.Sort(own)
		tables.WriteString(strings.Join(own, ""))
		fmt.Fprintf(&summary, "| %s | %d | %d | %d | %d |\n", page.path, len(page.families), have, pointless, missing)
	}
	return introduction + summary.String() + tables.String()
}
