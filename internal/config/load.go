package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Load makes a Config. data is the content of the configuration file, or nil;
// hostname is the name of the machine. The warnings are the names of fields in
// the file that have no effect yet.
func Load(flags *Flags, data []byte, hostname string) (Config, []string, error) {
	f, errs := readFile(data)
	if len(errs) > 0 {
		return Config{}, nil, fmt.Errorf("load the configuration: %w", errors.Join(errs...))
	}
	l := loader{flags: flags, file: f}
	l.paths()
	l.node(hostname)
	l.sources()
	l.runtime()
	l.limits()
	if len(l.errs) > 0 {
		return Config{}, nil, fmt.Errorf("load the configuration: %w", errors.Join(l.errs...))
	}
	return l.c, f.unheeded(), nil
}

// loader fills a Config field by field, and gathers what is wrong.
type loader struct {
	flags *Flags
	file  file
	c     Config
	errs  []error
}

func (l *loader) fail(name, format string, args ...any) {
	l.errs = append(l.errs, problem(name, format, args...))
}

// choice is a value, and what users call it.
type choice struct{ value, name string }

// pick takes the flag if it was given, else the file's value if there is one,
// else the default that the flag holds.
func (l *loader) pick(flag, fromFlag, field, fromFile string) choice {
	if !l.flags.changed(flag) && fromFile != "" {
		return choice{fromFile, l.file.named(field)}
	}
	return choice{fromFlag, "--" + flag}
}

// path checks a path on this machine.
func (l *loader) path(c choice) string {
	if c.value == "" {
		l.fail(c.name, "a path is needed")
		return ""
	}
	if !filepath.IsAbs(c.value) {
		l.fail(c.name, "%q must be an absolute path, which begins with a slash", c.value)
	}
	if strings.ContainsFunc(c.value, func(r rune) bool { return r < ' ' }) {
		l.fail(c.name, "%q holds control characters", c.value)
	}
	return filepath.Clean(c.value)
}

// duration takes the file's value if there is one, and checks its range.
func (l *loader) duration(field string, value, standard, least, most time.Duration) time.Duration {
	if value == 0 {
		return standard
	}
	if value < least || value > most {
		l.fail(l.file.named(field), "%s must be between %s and %s", value, least, most)
	}
	return value
}

func (l *loader) paths() {
	// Sockets live below the root, and the path of a socket must be short.
	const longestRoot = 80
	root := choice{l.flags.rootDir, "--" + flagRootDir}
	l.c.RootDir = l.path(root)
	if len(l.c.RootDir) > longestRoot {
		l.fail(root.name, "%q is longer than %d bytes: sockets below it could not be opened", l.c.RootDir, longestRoot)
	}
	if l.c.RootDir == "/" {
		l.fail(root.name, "it can't be the root of the filesystem: choose a folder of its own")
	}

	logs := filepath.Join(l.c.RootDir, "log", "pods")
	if l.c.RootDir == DefaultRootDir {
		logs = DefaultPodLogsDir
	}
	l.c.PodLogsDir = logs
	if dir := l.file.PodLogsDir; dir != "" {
		l.c.PodLogsDir = l.path(choice{dir, l.file.named("podLogsDir")})
	}
	l.c.CgroupRoot = DefaultCgroupRoot
	if cgroup := l.file.CgroupRoot; cgroup != "" {
		l.c.CgroupRoot = l.path(choice{cgroup, l.file.named("cgroupRoot")})
	}
}

func (l *loader) node(hostname string) {
	l.c.NodeName = strings.ToLower(strings.TrimSpace(cmp.Or(l.flags.hostname, hostname)))
	for _, message := range validation.IsDNS1123Subdomain(l.c.NodeName) {
		if l.flags.hostname != "" {
			l.fail("--"+flagHostname, "%q can't be the name of a node: %s", l.c.NodeName, message)
		} else {
			l.fail("--"+flagHostname, "the host's name %q can't be the name of a node, give another: %s", l.c.NodeName, message)
		}
		break // the messages are about the same thing
	}
	l.nodeIPs()
	l.podCIDR()
}

func (l *loader) limits() {
	const longestCrashLoop, mostSlots = 5 * time.Minute, 1000
	l.c.CrashLoopMax = longestCrashLoop
	if p := l.file.CrashLoopBackOff.MaxContainerRestartPeriod; p != nil {
		const field = "crashLoopBackOff.maxContainerRestartPeriod"
		l.c.CrashLoopMax = p.Duration
		if p.Duration < time.Second || p.Duration > longestCrashLoop {
			l.fail(l.file.named(field), "%s must be between 1s and %s", p.Duration, longestCrashLoop)
		}
	}
	l.c.StartSlots = l.flags.startSlots
	if n := l.c.StartSlots; n < 0 || n > mostSlots {
		l.fail("--"+flagStartSlots, "%d must be between 0 and %d", n, mostSlots)
	}
	l.c.Verbosity = l.flags.verbosity
	if !l.flags.changed(flagVerbosity) {
		l.c.Verbosity = int(l.file.Logging.Verbosity)
	}
	if l.c.Verbosity < 0 {
		l.fail("--"+flagVerbosity, "%d must not be negative", l.c.Verbosity)
	}
	l.pulls()
}

// pulls follows the kubelet: one image at a time, unless the file says that
// several may be pulled or that there is no order.
func (l *loader) pulls() {
	serial, most := l.file.SerializeImagePulls, l.file.MaxParallelImagePulls
	switch {
	case most != nil && *most < 1:
		l.fail(l.file.named("maxParallelImagePulls"), "%d must be at least 1", *most)
	case most != nil && *most > 1 && serial != nil && *serial:
		l.fail(l.file.named("maxParallelImagePulls"), "%d can't be pulled at a time while serializeImagePulls is true", *most)
	case most != nil:
		l.c.ParallelPulls = int(*most)
	case serial != nil && !*serial:
		l.c.ParallelPulls = 0
	default:
		l.c.ParallelPulls = 1
	}
}
