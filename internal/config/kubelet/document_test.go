package kubelet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/internal/config/features"
	"berth/internal/lib/doctest"
)

func TestTheDocumentIsMadeFromTheTables(t *testing.T) {
	want, err := document()
	if err != nil {
		t.Fatal(err)
	}
	doctest.Check(t, "kubelet.md", want)
}

// document returns docs/kubelet.md.
func document() (string, error) {
	normal, err := defaults()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString(introduction)
	out.WriteString("\n## Flags\n\nA flag that sets a field has the effect of that field. The default of such a flag is the field's.\n\n")
	out.WriteString("| flag | sets | default | state |\n|---|---|---|---|\n")
	all := allFlags()
	slices.SortFunc(all, func(a, b Flag) int { return cmp.Compare(a.Name, b.Name) })
	for _, f := range all {
		sets := f.Usage
		if f.Field != "" {
			sets = code(f.Field)
		}
		if f.Removed {
			sets += " (older than 1.36)"
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", code("--"+f.Name), cell(sets), code(defaultText(f, normal)), describe(f.state()))
	}
	out.WriteString("\n## Fields of KubeletConfiguration\n\n| field | default | state |\n|---|---|---|\n")
	for _, path := range fieldPaths() {
		fmt.Fprintf(&out, "| %s | %s | %s |\n", code(path), code(valueText(normal.get(path))), describe(fields[path]))
	}
	out.WriteString("\n## Feature gates\n\nAll feature gates of kubelet " + strings.TrimPrefix(Version, "v") + " are known by name, with their stage, default and lock.\n" +
		"In effect are " + inCode(features.Effective) + ". Any other gate that is set to another value than its default is named in a warning at the start.\n")
	return out.String(), nil
}

const introduction = `# berth as kubelet

<!-- Made from the tables in internal/config/kubelet by 'make docs'. -->

Started under the name ` + "`kubelet`" + `, by a link or as ` + "`berth kubelet`" + `, berth takes the command line and the configuration of kubelet 1.36, and
keeps its files where a kubelet keeps them:

| what | where | moved by |
|---|---|---|
| pods, plugins, plugins_registry, pod-resources, device-plugins, checkpoints, seccomp profiles | ` + "`/var/lib/kubelet`" + ` | ` + "`--root-dir`" + ` |
| state files of berth; its local socket and its lock are beside them, in the root | ` + "`/var/lib/kubelet/berth`" + ` | ` + "`--root-dir`" + ` |
| certificates: kubelet-client-current.pem, kubelet-server-current.pem, kubelet.crt and kubelet.key | ` + "`/var/lib/kubelet/pki`" + ` | ` + "`--cert-dir`" + ` |
| logs of pods | ` + "`/var/log/pods`" + ` | ` + "`podLogsDir`" + ` |
| links to the logs of containers | ` + "`/var/log/containers`" + ` | |
| cgroups of pods | ` + "`/kubepods`" + ` | ` + "`cgroupRoot`" + ` |
| container runtime | ` + "`unix:///run/containerd/containerd.sock`" + ` | ` + "`containerRuntimeEndpoint`" + ` |

Commands such as ` + "`berth get pods`" + ` reach it with ` + "`--root-dir /var/lib/kubelet`" + `.

The configuration is merged as the kubelet does: defaults, ` + "`--config`" + `, the ` + "`*.conf`" + ` files of ` + "`--config-dir`" + ` in the order of their paths (objects are
merged, lists are replaced, null removes), and flags last. Unknown fields are warnings that name the nearest one; unknown flags and feature gates are errors. What the
kubelet refuses at its start is refused, too: swap with failSwapOn, cgroup v1 with failCgroupV1, values out of range.

On purpose, berth differs in this:

- Without ` + "`--config`" + ` a kubelet has no hard eviction thresholds. Berth has those that a kubelet has with a file.
- An unknown field of a drop-in is a warning. A kubelet ignores it silently.
- The values of ` + "`--manifest-url`" + ` and its headers are not shown in /configz and in logs.
- Settings of the kernel that can't be changed are a warning. A kubelet does not start.

The states in these tables:

- **in effect**: berth does what the flag or field asks for.
- **no effect**: it is accepted, and one warning at the start says why nothing changes, unless it has its default value.
- **refused**: berth does not start, since it would be dangerous to ignore it.
`

func describe(s State) string {
	switch s.Effect {
	case AsKubelet:
		return s.Effect.String() + ", but " + s.Reason
	case NoEffect, Refused:
		return s.Effect.String() + ": " + s.Reason
	case InEffect:
	}
	return s.Effect.String()
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + cell(text) + "`"
}

// cell keeps a text from ending the cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func inCode(names []string) string {
	var out []string
	for _, name := range names {
		out = append(out, code(name))
	}
	return strings.Join(out, ", ")
}
