package bundle

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// containerdConfig is the template of containerd's configuration. It has the plugins that a
// node needs, and none that costs while idle.
const containerdConfig = `# Written by berth at each start: changes are lost.
version = 3
root = {{quote .Data}}
state = {{quote .State}}
temp = {{quote .Tmp}}
# No drop-ins: those in /etc belong to another containerd.
imports = []
# Without CRI there is no use in running.
required_plugins = ["io.containerd.grpc.v1.cri"]
{{- if .LowerOOM}}
oom_score = -999
{{- end}}

disabled_plugins = [
  # A timer that restarts containers: berth does that.
  "io.containerd.monitor.container.v1.restart",
  # Metrics of every container; the shims report the memory kills themselves.
  "io.containerd.monitor.task.v1.cgroups",
  # Tracing, and hooks of third parties: no one listens.
  "io.containerd.internal.v1.tracing",
  "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.nri.v1.nri",
  "io.containerd.image-verifier.v1.bindir",
  # Makes directories in /opt.
  "io.containerd.internal.v1.opt",
  # Storage that we do not use.
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.native",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.differ.v1.erofs",
  "io.containerd.mount-handler.v1.erofs",
]

[grpc]
address = {{quote .Socket}}

[debug]
level = "warn"

[plugins."io.containerd.shim.v1.manager"]
socket_dir = {{quote .Shims}}

[plugins."io.containerd.cri.v1.images"]
# Seconds between walks over all snapshots, to sum up their sizes.
stats_collect_period = 600
# A pull of which nothing comes for so long is given up, and tried again later.
image_pull_progress_timeout = {{quote .PullTimeout}}
# The other way of pulling counts what came by the megabyte, and so would give up pulls
# over slow links, and never those that hang within the first megabyte of a layer.
use_local_image_pull = true

[plugins."io.containerd.cri.v1.images".registry]
# HOST/hosts.toml in there names mirrors and certificates of a registry.
config_path = {{quote .Registries}}

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = {{quote .SandboxImage}}

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = {{not .LowerOOM}}
netns_mounts_under_state_dir = true
{{- if .Label}}
enable_selinux = true
{{- end}}
# Limits of huge pages are passed on, where the kernel has them.
disable_hugetlb_controller = false
# By default every container is measured every second, for a CPU rate that its
# reader can work out from two readings. This is most of what idling costs.
stats_collect_period = "24h"

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = [{{quote .CNIPrograms}}]
conf_dir = {{quote .CNIConf}}
# Saves the start of a program for each pod.
use_internal_loopback = true

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = {{quote .RuncProgram}}
Root = {{quote .Runc}}
SystemdCgroup = false
`

// capabilities are the optional features that containerd can use on this machine.
type capabilities struct {
	lowerOOM bool // lower the OOM score, by which the kernel chooses the process to kill
	label    bool // give containers their SELinux labels
}

// renderConfig renders containerd's configuration. pullTimeout is how long a pull may go on
// without data from the registry.
func renderConfig(p paths, can capabilities, pullTimeout time.Duration) ([]byte, error) {
	t, err := template.New("config").Funcs(template.FuncMap{"quote": quoteTOML}).Parse(containerdConfig)
	if err != nil {
		return nil, fmt.Errorf("write containerd's configuration: %w", err)
	}
	var out bytes.Buffer
	values := map[string]any{
		"Data": p.data, "State": p.state, "Tmp": p.tmp, "Socket": p.socket, "Shims": p.shims,
		"Runc": p.runc, "RuncProgram": p.runcProgram, "CNIPrograms": p.cniPrograms, "CNIConf": p.cniConf,
		"SandboxImage": SandboxImage, "Registries": p.registries, "LowerOOM": can.lowerOOM,
		"Label": can.label, "PullTimeout": pullTimeout.String(),
	}
	if err := t.Execute(&out, values); err != nil {
		return nil, fmt.Errorf("write containerd's configuration: %w", err)
	}
	return out.Bytes(), nil
}

// quoteTOML writes a basic string: quotes, backslashes and control characters escaped.
func quoteTOML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < 0x20 || c == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// capSysResource is the number of CAP_SYS_RESOURCE, the capability to lower an OOM score.
const capSysResource = 24

func mayLowerOOMScore() (bool, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false, fmt.Errorf("read own capabilities: %w", err)
	}
	return hasCapability(string(status), capSysResource)
}

// hasCapability reads the effective capabilities out of /proc/PID/status.
func hasCapability(status string, number uint) (bool, error) {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err != nil {
				return false, fmt.Errorf("read own capabilities: %w", err)
			}
			return set&(1<<number) != 0, nil
		}
	}
	return false, fmt.Errorf("read own capabilities: no CapEff in /proc/self/status")
}
