package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"berth/internal/host/proc"
	"berth/internal/lib/statefile"
)

// launcher starts the containerd of one root, and finds a containerd that runs already.
type launcher struct {
	paths paths
	procs proc.Table
	pids  *statefile.File // the pid file; nil if nothing is started
	log   *slog.Logger
}

func newLauncher(p paths, log *slog.Logger) *launcher {
	return &launcher{paths: p, procs: proc.Table{Dir: "/proc"}, log: log}
}

// pidRecord is the content of the pid file. It identifies the containerd of this root by facts
// of its start, so that it is found after an upgrade replaced its program. Exe and Namespaces
// are empty in a file that was written by an older version.
type pidRecord struct {
	PID        int             `json:"pid"`
	Start      uint64          `json:"start"`
	Exe        proc.File       `json:"exe"`
	Namespaces proc.Namespaces `json:"namespaces"`
	Config     string          `json:"config"` // digest of the configuration that it was started with
}

// adopt returns the containerd of this root that runs already, or nil if none does.
func (l *launcher) adopt() (process, error) {
	h, err := l.running()
	if h == nil || err != nil {
		return nil, err // not h: a nil *handle is no nil process
	}
	record, err := l.readPidFile()
	current, cerr := l.configDigest()
	if err == nil && cerr == nil && record.matches(h.Info) && record.Config != "" && record.Config != current {
		l.log.Warn("the running containerd has an older configuration: the new one counts from its next start", "pid", h.pid())
	}
	if err != nil || !record.matches(h.Info) {
		l.writePidFile(h.Info, "")
	}
	l.log.Info("adopted the running containerd", "pid", h.pid())
	return h, nil
}

// running finds the containerd of this root: first by the pid file, and if that is
// lost or wrong, among all processes.
func (l *launcher) running() (*handle, error) {
	if record, err := l.readPidFile(); err == nil {
		info, err := l.procs.Read(record.PID)
		if err == nil && !info.Zombie && l.recorded(record, info) {
			if h, err := l.procs.Open(info); err == nil {
				return &handle{h}, nil
			}
		}
	}
	found, err := l.procs.Find(l.paths.isContainerd)
	if err != nil {
		return nil, err
	}
	for _, info := range found {
		h, err := l.procs.Open(info)
		if errors.Is(err, proc.ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &handle{h}, nil
	}
	return nil, nil
}

// recorded reports whether a process is the containerd of the record. Its mount namespace is
// that of its start, which need not be that of the caller: 'berth down' may run outside of
// the namespace that a service manager made for the agent.
func (l *launcher) recorded(r pidRecord, i proc.Info) bool {
	if !r.matches(i) || filepath.Base(i.Exe) != filepath.Base(l.paths.containerd) {
		return false
	}
	if r.Exe == (proc.File{}) {
		return i.Own && hasFlag(i.Args, "--config", l.paths.config)
	}
	return r.Exe == i.File && r.Namespaces == i.Namespaces
}

func (r pidRecord) matches(i proc.Info) bool { return r.PID == i.PID && r.Start == i.Start }

// start runs containerd in a session of its own, with the log file as its output:
// nothing ties it to the agent, whose end it does not notice.
func (l *launcher) start() (process, error) {
	out, err := l.openLog()
	if err != nil {
		return nil, fmt.Errorf("open containerd's log: %w", err)
	}
	defer func() { _ = out.Close() }()
	l.spendReserve()
	config, err := l.configDigest()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(l.paths.containerd, "--config", l.paths.config)
	cmd.Dir = "/"
	cmd.Env = environment(os.Environ(), l.paths.libexec)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	child, err := l.procs.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	h := &handle{child}
	l.writePidFile(h.Info, config)
	l.log.Info("started containerd", "pid", h.pid())
	return h, nil
}

// openLog opens the file that containerd logs to. On a disk that can't be written,
// containerd goes without a log.
func (l *launcher) openLog() (*os.File, error) {
	out, err := os.OpenFile(l.paths.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if statefile.CantWrite(err) {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	return out, err
}

// environment returns containerd's environment: that of the agent, with a PATH that begins
// with the bundled programs (containerd finds its shim there) and has the directories of
// iptables, and without the variables that would make containerd talk to the agent's service
// manager.
func environment(own []string, libexec string) []string {
	var path string
	env := slices.DeleteFunc(slices.Clone(own), func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		if name == "PATH" {
			path = value
		}
		return name == "PATH" || name == "NOTIFY_SOCKET" || name == "LISTEN_FDS" || name == "LISTEN_PID" || name == "WATCHDOG_USEC"
	})
	dirs := []string{libexec}
	for _, dir := range append(strings.Split(path, ":"), "/usr/local/sbin", "/usr/sbin", "/usr/bin", "/sbin", "/bin") {
		if dir != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return append(env, "PATH="+strings.Join(dirs, ":"))
}

func (l *launcher) configDigest() (string, error) {
	config, err := os.ReadFile(l.paths.config)
	if err != nil {
		return "", fmt.Errorf("read containerd's configuration: %w", err)
	}
	sum := sha256.Sum256(config)
	return hex.EncodeToString(sum[:]), nil
}

func (l *launcher) readPidFile() (pidRecord, error) {
	return statefile.ReadRecord[pidRecord](filepath.Split(l.paths.pidFile))
}

// writePidFile writes the pid file. A failed write is tried again: until then, containerd is
// found among all processes.
func (l *launcher) writePidFile(info proc.Info, config string) {
	content, err := json.Marshal(pidRecord{PID: info.PID, Start: info.Start, Exe: info.File, Namespaces: info.Namespaces, Config: config})
	if err != nil {
		l.log.Warn("containerd is in no pid file", "err", err)
		return
	}
	_ = l.pids.Save(append(content, '\n')) // statefile tries again
}
